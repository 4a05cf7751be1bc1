// Compares a dashboard (JSON, standard input) with Grafana's own schema: fields, their types, and what a panel
// of each type may contain. Prints a line for each difference, and exits with 1 if there are any.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/text"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

func differences(raw []byte) error {
	// The types in use: all types together take three times as long to compile.
	known := cog.NewRuntime()
	known.RegisterPanelcfgVariant(stat.VariantConfig())
	known.RegisterPanelcfgVariant(table.VariantConfig())
	known.RegisterPanelcfgVariant(text.VariantConfig())
	known.RegisterPanelcfgVariant(timeseries.VariantConfig())
	known.RegisterDataqueryVariant(prometheus.VariantConfig())
	var read dashboard.Dashboard
	for _, err := range []error{read.UnmarshalJSONStrict(raw), read.Validate()} {
		// The library returns an empty list in place of nil.
		var found cog.BuildErrors
		if err != nil && (!errors.As(err, &found) || len(found) > 0) {
			return err
		}
	}
	return nil
}

func main() {
	raw, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = differences(raw)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
