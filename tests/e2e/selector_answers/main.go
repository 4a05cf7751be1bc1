// The answers of Kubernetes' own CEL to the selectors in tests/wire/dra/golden/cases.json: for each expression and each
// device "admits", "rejects", "fails" (a runtime error) or "invalid" (it does not compile). `go run . < cases > answers`.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"
)

type device struct {
	Driver string `json:"driver"`
	resourceapi.Device
}

type cases struct {
	Devices     map[string]json.RawMessage `json:"devices"`
	Expressions []string                   `json:"expressions"`
}

func main() {
	var given cases
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		log.Fatal(err)
	}
	answers := map[string]map[string]string{}
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true})
	for _, expression := range given.Expressions {
		compiled := compiler.CompileCELExpression(expression, cel.Options{})
		of := map[string]string{}
		for name, text := range given.Devices {
			var each device // read again, because sub() changes some quantities in place
			if err := json.Unmarshal(text, &each); err != nil {
				log.Fatal(err)
			}
			of[name] = answer(compiled, each)
		}
		answers[expression] = of
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(answers); err != nil {
		log.Fatal(err)
	}
}

func answer(compiled cel.CompilationResult, of device) string {
	if compiled.Error != nil {
		return "invalid"
	}
	matches, _, err := compiled.DeviceMatches(context.Background(), cel.Device{
		Driver:                   of.Driver,
		AllowMultipleAllocations: ptr.To(ptr.Deref(of.AllowMultipleAllocations, false)),
		Attributes:               of.Attributes,
		Capacity:                 of.Capacity,
	})
	switch {
	case err != nil:
		return "fails"
	case matches:
		return "admits"
	}
	return "rejects"
}
