{{/* The image of the extender and of the agents. */}}
{{- define "gpu-scheduler.image" -}}
{{- $image := .Values.image -}}
{{- $image.repository }}{{ if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end }}

{{/* The image of kube-scheduler. */}}
{{- define "gpu-scheduler.schedulerImage" -}}
{{- $image := .Values.scheduler.image -}}
{{- $image.repository }}{{ if $image.digest }}@{{ $image.digest }}{{ else if $image.tag }}:{{ $image.tag }}{{ else }}:{{ include "gpu-scheduler.schedulerTag" . }}{{ end -}}
{{- end }}

{{/*
The tag of kube-scheduler for the cluster's control plane: the newest known release of its minor release. A
candidate (v1.38.0-rc.1) gets its own, because the releases after it are newer. So does an unknown minor release,
without a vendor's suffix (v1.38.1 of v1.38.1-eks-1a2b3c): it is not newer than the control plane, and its image
exists unless the vendor numbers releases of its own, from 100 on.
Tools that render the chart may give a minor release only (1.38), which stands for its first release.
*/}}
{{- define "gpu-scheduler.schedulerTag" -}}
{{- $version := .Capabilities.KubeVersion.Version | trimPrefix "v" -}}
{{- $minor := regexFind "^\\d+\\.\\d+" $version -}}
{{- $candidate := regexFind "^\\d+\\.\\d+\\.\\d+-(alpha|beta|rc)\\.\\d+" $version -}}
{{- $known := get (.Files.Get "files/kube-scheduler-versions.yaml" | fromYaml) $minor -}}
{{- if $candidate -}}
v{{ $candidate }}
{{- else if $known -}}
{{ $known }}
{{- else if regexMatch "^\\d+\\.\\d+\\.\\d{3}" $version -}}
{{- fail (printf "scheduler.image.tag: set it, because registry.k8s.io has no release %s, and this chart knows none of %s" $version $minor) -}}
{{- else -}}
v{{ regexFind "^\\d+\\.\\d+\\.\\d+" $version | default (printf "%s.0" $minor) }}
{{- end -}}
{{- end }}
