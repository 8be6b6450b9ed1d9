// Package xdssuite has weblimit take its limits from a control plane made of go-control-plane, as those of Envoy Gateway and
// Envoy AI Gateway are: a service in this process, and weblimitd in one of its own. It is here since nobody imports a
// command: who requires service/envoy/xds does not download go-control-plane.
package xdssuite
