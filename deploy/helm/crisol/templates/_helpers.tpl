{{- define "crisol.labels" -}}
app.kubernetes.io/part-of: crisol
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "crisol.spread" -}}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      app.kubernetes.io/name: {{ . }}
- maxSkew: 1
  topologyKey: topology.kubernetes.io/zone
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      app.kubernetes.io/name: {{ . }}
{{- end }}

{{- define "crisol.scaling" -}}
behavior:
  scaleUp:
    stabilizationWindowSeconds: 0
    policies:
      - {type: Pods, value: 2, periodSeconds: 30}
  scaleDown:
    stabilizationWindowSeconds: 300
    policies:
      - {type: Pods, value: 1, periodSeconds: 60}
{{- end }}

{{- define "crisol.store" -}}
{{- if not .Values.postgres.enabled -}}
none
{{- else if .Values.postgres.url -}}
{{ .Values.postgres.url }}
{{- else -}}
postgresql://crisol@postgres.{{ .Values.namespaces.orchestrator }}.svc.cluster.local/crisol
{{- end -}}
{{- end }}

{{- /* What no schema can say: fails before anything is made. */}}
{{- define "crisol.check" -}}
{{- if and (gt (int .Values.orchestrator.replicas) 1) (not .Values.postgres.enabled) }}
{{- fail "orchestrator.replicas: more than one takes postgres.enabled, or a run is known to one of them only" }}
{{- end }}
{{- if and .Values.autoscaling.enabled (not .Values.postgres.enabled) }}
{{- fail "autoscaling.enabled takes postgres.enabled: an orchestrator that is added must see the runs of the others" }}
{{- end }}
{{- if gt (add (div (add (int .Values.sandboxd.drainDelayMs) (int .Values.sandboxd.graceMs)) 1000) 34) (int .Values.sandboxd.terminationGracePeriodSeconds) }}
{{- fail "sandboxd.terminationGracePeriodSeconds: must be drainDelayMs, graceMs and 34 s, or runs are killed before their grace is over" }}
{{- end }}
{{- if gt (add (div (add (int .Values.orchestrator.drainDelayMs) (int .Values.orchestrator.graceMs)) 1000) 5) (int .Values.orchestrator.terminationGracePeriodSeconds) }}
{{- fail "orchestrator.terminationGracePeriodSeconds: must be drainDelayMs, graceMs and 5 s" }}
{{- end }}
{{- if eq .Values.namespaces.orchestrator .Values.namespaces.sandbox }}
{{- fail "namespaces: what needs privileges and what must not have any are not to share a namespace" }}
{{- end }}
{{- end }}
