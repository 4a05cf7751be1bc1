{{/* A policy that denies all traffic of a namespace, the dot; other policies add what is needed. */}}
{{- define "gpu-scheduler.nothingElse" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: nothing-else
  namespace: {{ .namespace }}
  labels: {app.kubernetes.io/name: gpu-scheduler{{ include "gpu-scheduler.furtherLabels" .root }}}
spec:
  podSelector: {}
  policyTypes: [Ingress, Egress]
{{- end }}

{{/* Outgoing traffic to the API server and DNS. */}}
{{- define "gpu-scheduler.egress" -}}
{{- $policy := .Values.networkPolicy -}}
{{- $dns := list -}}
{{- range $port := $policy.dns.ports }}{{ range list "UDP" "TCP" }}{{ $dns = append $dns (dict "port" $port "protocol" .) }}{{ end }}{{ end -}}
{{- $api := list -}}
{{- range $policy.apiServer.ports }}{{ $api = append $api (dict "port" . "protocol" "TCP") }}{{ end -}}
{{- if $policy.apiServer.cidrs -}}
- ports: {{ toYaml $api | nindent 4 }}
  to:
    {{- range $policy.apiServer.cidrs }}
    - ipBlock: {cidr: {{ . | quote }}}
    {{- end }}
{{- with $dns }}
- ports: {{ toYaml . | nindent 4 }}
{{- end }}
{{- else -}}
# A policy cannot know the address of the API server.
- ports: {{ toYaml (concat $api $dns) | nindent 4 }}
{{- end }}
{{- end }}

{{/* Prometheus, in a namespace that an administrator has labelled: every user who may create a pod may set its labels. */}}
{{- define "gpu-scheduler.prometheus" -}}
{{- with .Values.networkPolicy.prometheus -}}
- namespaceSelector: {matchLabels: {{ toJson .namespaceLabels }}}
  podSelector: {matchLabels: {{ toJson .podLabels }}}
{{- end }}
{{- end }}
