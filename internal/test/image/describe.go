// Package image describes the container image of weblimitd, and writes it as a file that docker, podman, skopeo and
// containerd load: without one of them, and with the same bytes each time. `make image` runs it.
package image

import (
	"maps"
	"slices"

	"github.com/weblimit/weblimit/core"
)

// Where the program is in the image, under both of its names.
const (
	Program = "weblimitd"     // a file
	Entry   = "bin/ratelimit" // a link to it: the program that Envoy Gateway and others start
	Roots   = "etc/ssl/certs/ca-certificates.crt"
	Bill    = "usr/share/sbom/weblimitd.spdx.json" // what the program is made of
)

// Env are the variables of the image: defaults, which a setting of any kind overrides. What the program decides by is not
// set: WEBLIMIT_POLICY is a policy file that is mounted, and WEBLIMIT_ENVOY_CONFIG a folder of Envoy's files. Callers
// need a token or a certificate: WEBLIMIT_TOKENS or WEBLIMIT_TLS_CLIENT_CA, or WEBLIMIT_INSECURE_LISTEN=true where the
// network keeps others out. Without operators, the admin listener shows health and metrics alone. Under the name
// ratelimit, the ports are those of envoyproxy/ratelimit.
func Env() []string {
	return []string{"WEBLIMIT_DEFAULT_LISTEN=:9180", "WEBLIMIT_DEFAULT_ADMIN_LISTEN=:9181", "WEBLIMIT_DEFAULT_GRPC_LISTEN=:9182", "WEBLIMIT_DEFAULT_LOG_FORMAT=json"}
}

// Ports are those that the program listens on by default, under its two names.
func Ports() []int { return []int{6070, 8080, 8081, 9180, 9181, 9182} }

// settings is the configuration that the image format has for how containers start.
type settings struct {
	User         string              `json:"User"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts"`
	Env          []string            `json:"Env"`
	Entrypoint   []string            `json:"Entrypoint"`
	Labels       map[string]string   `json:"Labels"`
	StopSignal   string              `json:"StopSignal"`
	Healthcheck  healthcheck         `json:"Healthcheck"` // of Docker, which others pass over
}

// healthcheck has times in nanoseconds.
type healthcheck struct {
	Test        []string `json:"Test"`
	Interval    int64    `json:"Interval"`
	Timeout     int64    `json:"Timeout"`
	StartPeriod int64    `json:"StartPeriod"`
}

// describe returns how containers start. There is no shell and no curl in the image, so the health check is a command of
// the program. It runs as nobody, and writes no file.
func describe() settings {
	const second = 1e9
	return settings{
		User: "65532:65532", ExposedPorts: ports(), Env: Env(), Entrypoint: []string{"/" + Program}, Labels: Labels(), StopSignal: "SIGTERM",
		Healthcheck: healthcheck{Test: []string{"CMD", "/" + Program, "healthcheck"}, Interval: 10 * second, Timeout: 5 * second, StartPeriod: 5 * second},
	}
}

// Labels are what registries and scanners show of the image.
func Labels() map[string]string {
	const of = "org.opencontainers.image."
	return map[string]string{
		of + "title": "weblimitd", of + "description": "Rate limits and quotas as a service, also in place of envoyproxy/ratelimit",
		of + "source": "https://github.com/weblimit/weblimit", of + "licenses": "MIT", of + "version": core.Version(),
		of + "documentation": "https://github.com/weblimit/weblimit/blob/main/docs/service/weblimitd.md#container",
	}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
