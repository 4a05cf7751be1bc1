{{/* The configuration of kube-scheduler: the shipped text if the values change nothing. */}}
{{- define "gpu-scheduler.schedulerConfig" -}}
{{- $shipped := .Files.Get "files/kube-scheduler.yaml" -}}
{{- $config := fromYaml $shipped -}}
{{- $extender := first $config.extenders -}}
{{- $_ := set $config.leaderElection "resourceNamespace" .Release.Namespace -}}
{{- $_ = set (first $config.profiles) "schedulerName" .Values.schedulerName -}}
{{- if .Values.shares.enabled -}}
{{- /* The extender posts the Binding, because it alone knows the GPU of each share. */ -}}
{{- $_ = set $extender "bindVerb" "bind" -}}
{{- end -}}
{{- range .Values.scheduler.managedResources -}}
{{- $_ = set $extender "managedResources" (append $extender.managedResources (dict "name" .)) -}}
{{- end -}}
{{- if .Values.dra.enabled -}}
{{- /* kube-scheduler compares these names with the resources of containers, never with claims. */ -}}
{{- $_ = unset $extender "managedResources" -}}
{{- end -}}
{{- if .Values.standalone.enabled -}}
{{- $host := printf "gpu-scheduler-extender.%s.svc" .Release.Namespace -}}
{{- $_ = set $extender "urlPrefix" (printf "https://%s:8888" $host) -}}
{{- $_ = set $extender "enableHTTPS" true -}}
{{- /* All four are required: without the CA, kube-scheduler silently verifies nothing. */ -}}
{{- $files := "/etc/gpu-scheduler-tls" -}}
{{- $tls := dict "serverName" $host "caFile" (print $files "/ca.crt") "certFile" (print $files "/tls.crt") "keyFile" (print $files "/tls.key") -}}
{{- $_ = set $extender "tlsConfig" $tls -}}
{{- end -}}
{{- if .Values.scheduler.config -}}
{{- toYaml .Values.scheduler.config -}}
{{- else if deepEqual $config (fromYaml $shipped) -}}
{{- $shipped -}}
{{- else -}}
{{- toYaml $config -}}
{{- end -}}
{{- end }}

{{/* The configuration of the extender: the shipped text, which has every default, or only the changes. */}}
{{- define "gpu-scheduler.extenderConfig" -}}
{{- $changes := deepCopy .Values.extender.config -}}
{{- if .Values.shares.enabled -}}
{{- $changes = mergeOverwrite $changes (dict "bind" (dict "enabled" true)) -}}
{{- end -}}
{{- if .Values.dra.deviceTaints -}}
{{- $changes = mergeOverwrite $changes (dict "dra" (dict "deviceTaints" true)) -}}
{{- end -}}
{{- if .Values.placeholders.enabled -}}
{{- $changes = mergeOverwrite $changes (dict "autoscaler" (dict "placeholders" (dict "enabled" true))) -}}
{{- end -}}
{{- if .Values.gangs.enabled -}}
{{- $changes = mergeOverwrite $changes (dict "nominate" (dict "gangs" (dict "enabled" true))) -}}
{{- end -}}
{{- if ne .Values.idle.reclaim "off" -}}
{{- $changes = mergeOverwrite $changes (dict "idle" (dict "reclaim" (dict "mode" .Values.idle.reclaim))) -}}
{{- end -}}
{{- if not .Values.agent.enabled -}}
{{- /* The label would bring nothing. */ -}}
{{- $changes = mergeOverwrite (dict "inventory" (dict "labelNodes" false)) $changes -}}
{{- end -}}
{{- if ne .Values.schedulerName "gpu-scheduler" -}}
{{- $changes = mergeOverwrite (dict "schedulerNames" (list .Values.schedulerName)) $changes -}}
{{- end -}}
{{- if $changes -}}
{{- toYaml (merge (dict "apiVersion" "config.scheduler-ext.io/v1alpha1" "kind" "ExtenderConfiguration") $changes) -}}
{{- else -}}
{{- .Files.Get "files/extender.yaml" -}}
{{- end -}}
{{- end }}

{{/* The resources of GPUs, joined for a list in CEL. */}}
{{- define "gpu-scheduler.gpuResources" -}}
{{- $shipped := (.Files.Get "files/extender.yaml" | fromYaml).resources -}}
{{- $resources := mergeOverwrite $shipped (deepCopy (.Values.extender.config.resources | default dict)) -}}
{{- append $resources.wholeGpu $resources.memoryShare | join "', '" -}}
{{- end }}

{{/* The seconds of a duration such as 2m30s, which the schema has checked. */}}
{{- define "gpu-scheduler.seconds" -}}
{{- $units := dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 -}}
{{- $total := 0.0 -}}
{{- range regexFindAll "[0-9.]+[a-z]+" . -1 -}}
{{- $total = addf $total (mulf (regexFind "[0-9.]+" . | float64) (get $units (regexFind "[a-z]+" .))) -}}
{{- end -}}
{{- $total -}}
{{- end }}
