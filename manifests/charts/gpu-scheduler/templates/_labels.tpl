{{/* Further labels within braces, after the first label. */}}
{{- define "gpu-scheduler.furtherLabels" -}}
{{- range $key, $value := .Values.commonLabels }}, {{ $key }}: {{ $value | quote }}{{ end -}}
{{- end }}

{{/* The same for the objects that the Prometheus Operator selects. */}}
{{- define "gpu-scheduler.monitoringLabels" -}}
{{- range $key, $value := merge dict .Values.monitoring.labels .Values.commonLabels }}, {{ $key }}: {{ $value | quote }}{{ end -}}
{{- end }}

{{/* The address of the source tree before the path of a runbook. */}}
{{- define "gpu-scheduler.source" -}}
{{- with .Values.monitoring.source }}{{ trimSuffix "/" . }}/{{ end -}}
{{- end }}
