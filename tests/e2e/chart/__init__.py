"""The Helm chart: rendered beside kustomize's output, refused values, and an installation. Helm is built from
`tests/e2e/helm/go.mod`.

`make chart` generates most templates (`manifests/charts/generate.py`). A new value is in `values.yaml`,
`values.schema.json` and `docs/reference/chart-values.md`; a value that replaces a patch of a kustomization is
compared with it in `test_patches.py`.
"""
