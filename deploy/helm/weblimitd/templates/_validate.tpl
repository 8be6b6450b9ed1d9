{{- /* What would do nothing, or would be unsafe, is refused before anything is made. Each line says what to set instead. */ -}}
{{- define "weblimitd.validate" -}}
{{- include "weblimitd.validateDecides" . -}}
{{- include "weblimitd.validateCallers" . -}}
{{- include "weblimitd.validateStore" . -}}
{{- include "weblimitd.validateSettings" . -}}
{{- include "weblimitd.validateCluster" . -}}
{{- end -}}

{{- define "weblimitd.validateDecides" -}}
{{- with .Values -}}
{{- if not .image.repository -}}{{- fail "image.repository is not set: build the image by scripts/image, push it to a registry of yours, and name it" -}}{{- end -}}
{{- $policies := without (list .policy.file .policy.existingConfigMap .policy.from) "" -}}
{{- $envoys := without (list (ternary "files" "" (not (empty .envoy.files))) .envoy.existingConfigMap .envoy.from) "" -}}
{{- if not (or $policies $envoys) -}}{{- fail "there is nothing to decide by: set policy.file, policy.existingConfigMap or policy.from, or one of envoy" -}}{{- end -}}
{{- if gt (len $policies) 1 -}}{{- fail "policy.file, policy.existingConfigMap and policy.from exclude each other" -}}{{- end -}}
{{- if gt (len $envoys) 1 -}}{{- fail "envoy.files, envoy.existingConfigMap and envoy.from exclude each other" -}}{{- end -}}
{{- if and $policies (not .http.enabled) -}}{{- fail "http.enabled is false, so nobody could ask for what policy says: it is for Envoy alone" -}}{{- end -}}
{{- end -}}
{{- end -}}

{{- define "weblimitd.validateCallers" -}}
{{- with .Values.callers -}}
{{- $known := or .tokens .secret.name .tls.clientCA -}}
{{- if and .tokens .secret.name -}}{{- fail "callers.tokens and callers.secret exclude each other: put all tokens into the Secret" -}}{{- end -}}
{{- if and .tls.clientCA (not .tls.secret) -}}{{- fail "callers.tls.clientCA needs callers.tls.secret, which has the authorities in ca.crt" -}}{{- end -}}
{{- if and .tls.clientNames (not .tls.clientCA) -}}{{- fail "callers.tls.clientNames needs callers.tls.clientCA: true" -}}{{- end -}}
{{- if and .insecure $known -}}{{- fail "callers.insecure would do nothing: callers need a token or a certificate. Take away one of the two" -}}{{- end -}}
{{- if not (or $known .insecure) -}}{{- fail "everybody in the cluster could use up the quotas of others: set callers.secret, callers.tokens or callers.tls.clientCA, or callers.insecure: true if the network itself keeps others out" -}}{{- end -}}
{{- end -}}
{{- with .Values.operators -}}
{{- if and .secret.name (not .tls.secret) -}}{{- fail "operators.secret needs operators.tls.secret: passwords are taken over TLS alone" -}}{{- end -}}
{{- if and .hosts (not .secret.name) -}}{{- fail "operators.hosts needs operators.secret: without it there is no page" -}}{{- end -}}
{{- end -}}
{{- if and .Values.callers.reservationSecret.name (not (or (include "weblimitd.policyConfigMap" .) .Values.policy.from)) -}}
{{- fail "callers.reservationSecret needs policy: Envoy reserves nothing" -}}
{{- end -}}
{{- end -}}

{{- define "weblimitd.validateStore" -}}
{{- $store := include "weblimitd.store" . -}}
{{- with .Values -}}
{{- if and (or .redis.url .redis.urlSecret.name) (or .postgres.url .postgres.urlSecret.name) -}}{{- fail "redis and postgres exclude each other" -}}{{- end -}}
{{- range $name, $in := dict "redis" .redis "postgres" .postgres -}}
{{- if and $in.url $in.urlSecret.name -}}{{- fail (printf "%s.url and %s.urlSecret exclude each other" $name $name) -}}{{- end -}}
{{- if regexMatch "://[^/]*:[^/@]*@|[?&]password=" $in.url -}}{{- fail (printf "%s.url has a password, and whoever may read the Deployment could read it: set %s.urlSecret, or %s.passwordSecret beside an address without" $name $name $name) -}}{{- end -}}
{{- if and $in.passwordSecret.name (ne $store $name) -}}{{- fail (printf "%s.passwordSecret needs %s.url or %s.urlSecret" $name $name $name) -}}{{- end -}}
{{- range list $.Values.policy.from $.Values.envoy.from -}}
{{- if and (hasPrefix (print $name ":") .) (ne $store $name) -}}{{- fail (printf "%s is published in a store that is not named: set %s.url or %s.urlSecret" . $name $name) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if eq $store "memory" -}}
{{- if .autoscaling.enabled -}}{{- fail "autoscaling needs redis or postgres: each instance would grant the whole limit" -}}{{- end -}}
{{- if gt (int64 .replicas) 1 -}}{{- fail (printf "%d replicas need redis or postgres: each would grant the whole limit. Set one of them, or replicas: 1" (int64 .replicas)) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Settings that have a value of their own. A test compares these with what the chart sets. */ -}}
{{- define "weblimitd.settingsOfValues" -}}
policy: policy
envoy-config: envoy
config: settings
listen: http.enabled
admin-listen: metrics
grpc-listen: envoy
insecure-listen: callers.insecure
redis: redis.url
redis-password-file: redis.passwordSecret
postgres: postgres.url
postgres-password-file: postgres.passwordSecret
tokens-file: callers.secret
tls-cert: callers.tls
tls-key: callers.tls
tls-client-ca: callers.tls.clientCA
tls-client-names: callers.tls.clientNames
reservation-secrets-file: callers.reservationSecret
admin-users-file: operators.secret
admin-hosts: operators.hosts
admin-tls-cert: operators.tls
admin-tls-key: operators.tls
drain-delay: drain.delaySeconds
drain-timeout: drain.timeoutSeconds
{{- end -}}

{{- define "weblimitd.validateSettings" -}}
{{- $ofValues := include "weblimitd.settingsOfValues" . | fromYaml -}}
{{- $secrets := list "tokens" "redis-password" "redis-sentinel-password" "home-redis-password" "home-redis-sentinel-password" "reservation-secrets" "admin-users" "log-secret" "envoy-xds-headers" -}}
{{- range $name, $value := .Values.settings -}}
{{- with index $ofValues $name -}}{{- fail (printf "settings.%s: set %s instead" $name .) -}}{{- end -}}
{{- if has $name $secrets -}}{{- fail (printf "settings.%s: whoever may read the Deployment could read a secret there" $name) -}}{{- end -}}
{{- if hasPrefix "default-" $name -}}{{- fail (printf "settings.%s: defaults are the image's. Set %s" $name (trimPrefix "default-" $name)) -}}{{- end -}}
{{- if hasPrefix "admin-tls-client-" $name -}}{{- fail (printf "settings.%s: the probes of Kubernetes and Prometheus have no certificate" $name) -}}{{- end -}}
{{- if and (eq $name "replicas") (eq (include "weblimitd.store" $) "memory") -}}{{- fail "settings.replicas needs redis or postgres" -}}{{- end -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{- if hasPrefix "WEBLIMIT_" .name -}}{{- fail (printf "extraEnv: %s is a setting of weblimitd: see settings" .name) -}}{{- end -}}
{{- end -}}
{{- end -}}

{{- define "weblimitd.validateCluster" -}}
{{- with .Values.autoscaling -}}
{{- if .enabled -}}
{{- if gt (int64 .minReplicas) (int64 .maxReplicas) -}}{{- fail "autoscaling.minReplicas is more than autoscaling.maxReplicas" -}}{{- end -}}
{{- if not (dig "requests" "cpu" "" (default dict $.Values.resources)) -}}{{- fail "autoscaling needs resources.requests.cpu, of which it takes autoscaling.cpu percent" -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.networkPolicy -}}
{{- if and (or .callers .operators .egress) (not .enabled) -}}{{- fail "networkPolicy.enabled is false, so its lists would do nothing" -}}{{- end -}}
{{- if and .enabled (not .callers) -}}{{- fail "networkPolicy would lock out everybody: set networkPolicy.callers" -}}{{- end -}}
{{- if and .enabled $.Values.metrics.serviceMonitor.enabled (not .operators) -}}{{- fail "networkPolicy would lock out Prometheus: set networkPolicy.operators" -}}{{- end -}}
{{- end -}}
{{- $name := include "weblimitd.fullname" . -}}
{{- if not (regexMatch "^[a-z]([a-z0-9-]*[a-z0-9])?$" $name) -}}{{- fail (printf "a Service can't be called %s: set fullnameOverride to a name of letters, digits and dashes" $name) -}}{{- end -}}
{{- range $label, $value := include "weblimitd.labels" . | fromYaml -}}
{{- if hasKey $.Values.podLabels $label -}}{{- fail (printf "podLabels: %s is a label of the selector" $label) -}}{{- end -}}
{{- end -}}
{{- end -}}
