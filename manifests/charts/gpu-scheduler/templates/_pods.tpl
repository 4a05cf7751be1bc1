{{/* The nodes and the priority of the pods of kube-scheduler and of the standalone extender. */}}
{{- define "gpu-scheduler.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.pods.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.pods.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.pods.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.pods.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Replicas on different nodes and in different zones. The dot is the labels of the pods. */}}
{{- define "gpu-scheduler.spread" -}}
{{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- topologyKey: {{ $key }}
  maxSkew: 1
  # Preferred only: a cluster of one node runs all of them.
  whenUnsatisfiable: ScheduleAnyway
  labelSelector: {matchLabels: {{ toJson $ }}}
  matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end }}

{{- define "gpu-scheduler.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "gpu-scheduler.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* A token of the pod's own identity, which lives for an hour. */}}
{{- define "gpu-scheduler.token" -}}
- serviceAccountToken: {path: token, expirationSeconds: 3600}
{{ include "gpu-scheduler.cluster" . }}
{{- end }}

{{/* The CA of the API server, and the pod's namespace. */}}
{{- define "gpu-scheduler.cluster" -}}
- configMap:
    name: kube-root-ca.crt
    items: [{key: ca.crt, path: ca.crt}]
- downwardAPI:
    items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]
{{- end }}

{{/* The probes of an extender. */}}
{{- define "gpu-scheduler.extenderProbes" -}}
startupProbe:
  httpGet: {port: health, path: /livez}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: {port: health, path: /livez}
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: 3
readinessProbe:
  httpGet: {port: health, path: /readyz}
  periodSeconds: 5
  timeoutSeconds: 3
{{- end }}

{{/* The pods that the ResourceQuota of the namespace admits: all replicas, and as many again while they are replaced. */}}
{{- define "gpu-scheduler.criticalPods" -}}
{{- mul 2 (add .Values.scheduler.replicas .Values.standalone.replicas) -}}
{{- end }}
