{{/* Further labels within braces, after the first label. */}}
{{- define "gpu-scheduler.furtherLabels" -}}
{{- range $key, $value := .Values.commonLabels }}, {{ $key }}: {{ $value | quote }}{{ end -}}
{{- end }}

{{/* The same for the objects that the Prometheus Operator selects. */}}
{{- define "gpu-scheduler.monitoringLabels" -}}
{{- range $key, $value := merge dict .Values.monitoring.labels .Values.commonLabels }}, {{ $key }}: {{ $value | quote }}{{ end -}}
{{- end }}

{{/* The Deployment whose pods serve the live page and the runbooks. */}}
{{- define "gpu-scheduler.inspected" -}}
{{ ternary "gpu-scheduler-extender" "gpu-scheduler" .Values.standalone.enabled }}
{{- end }}

{{/* The number of extenders. */}}
{{- define "gpu-scheduler.extenders" -}}
{{ ternary .Values.standalone.replicas .Values.scheduler.replicas .Values.standalone.enabled }}
{{- end }}
