package main

import (
	"fmt"
	"strings"

	"github.com/weblimit/weblimit/internal/settings"
)

// usage is the text of --help.
func (o *options) usage() string {
	var b strings.Builder
	b.WriteString(`weblimitd decides rate limits and quotas for other programs, by a policy file.

  weblimitd --policy limits.yaml    serve, counting in memory
  weblimitd --policy limits.yaml --redis redis://localhost:6379
  weblimitd --envoy-config config/  serve Envoy, by the files of envoyproxy/ratelimit
  weblimitd --check …               check settings, policy, certificates and tokens, and exit
  weblimitd healthcheck             exit 0 if the instance here is ready, for containers
  weblimitd status                  what the instance here decides by
  weblimitd reload                  read policy, certificates and tokens again
  weblimitd rollback                go back to the policy before
  weblimitd publish edge.yaml       check a file of Envoy, and publish it where --envoy-config redis:KEY says
  weblimitd version
  ratelimit                         serve in place of envoyproxy/ratelimit, by its variables, under that name

The other commands find the instance by the same settings. Each setting is a flag, a variable such as
WEBLIMIT_ADMIN_LISTEN, or a line such as "admin-listen: 127.0.0.1:9181" in the file of --config. A flag
wins over a variable, a variable over the file.
`)
	group := ""
	for _, s := range o.set.All() {
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(&b, "\n%s\n", group)
		}
		name := "--" + s.Name
		if s.EnvOnly {
			name = settings.Variable(s.Name)
		}
		fmt.Fprintf(&b, "  %-34s %s", name, s.Help)
		if s.Default != "" && s.Name != "redis-pool-size" {
			fmt.Fprintf(&b, " (%s)", s.Default)
		}
		b.WriteByte('\n')
	}
	b.WriteString("\nSignals: SIGTERM drains and ends, a second one ends at once; SIGHUP reads everything again.\nhttps://github.com/weblimit/weblimit/blob/main/docs/service/weblimitd.md\n")
	return b.String()
}
