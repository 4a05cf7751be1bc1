"""The live page: the cluster as a map, waiting pods, and decisions. `static/` is served unchanged: ES
modules, one style sheet, and lit-html. Only `named` and `visible` (`js/text.js`) insert names, as text;
`style` is set as a property, because the content security policy forbids the attribute."""
