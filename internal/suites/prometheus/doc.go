// Package prometheus tests what operators see: a real Prometheus scrapes an application under load
// while its Redis is killed and restored. The rules of deploy/prometheus fire and resolve, and every
// query of deploy/grafana finds something. So do the alerts with examples/observed, from which
// make screenshots draws docs/pictures/dashboard.svg.
//
// Without prometheus and promtool in PATH the tests skip; where CI=true they fail.
// scripts/install-prometheus installs both.
package prometheus
