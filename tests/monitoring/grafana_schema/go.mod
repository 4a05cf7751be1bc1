// Grafana's types of dashboards, from its Foundation SDK.
module scheduler-ext/grafana-schema

go 1.21

require github.com/grafana/grafana-foundation-sdk/go v0.0.22
