package envoy

import (
	"os"
	"reflect"
	"regexp"
	"testing"

	"github.com/envoyproxy/ratelimit/src/settings"

	"github.com/weblimit/weblimit/internal/test/must"
)

// Every variable that envoyproxy/ratelimit reads is in docs/service/envoy.md, whose table a test in cmd/weblimitd
// compares with what weblimitd refuses. So a variable of a new release is not passed over.
func TestEveryVariableIsKnown(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../../docs/service/envoy.md"))(t)
	table := regexp.MustCompile(`(?s)<!-- variables -->.*?<!-- end -->`).Find(text)
	known := map[string]bool{}
	for _, name := range regexp.MustCompile("`([A-Z][A-Z_]+)`").FindAllSubmatch(table, -1) {
		known[string(name[1])] = true
	}
	n := 0
	for field := range reflect.TypeFor[settings.Settings]().Fields() {
		name := field.Tag.Get("envconfig")
		if name == "" {
			continue
		}
		if n++; !known[name] {
			t.Errorf("%s is not in docs/service/envoy.md: add it to inheritedVariables of cmd/weblimitd", name)
		}
	}
	if n < 108 || len(known) < 114 {
		t.Errorf("%d variables are read, and %d known", n, len(known))
	}
}
