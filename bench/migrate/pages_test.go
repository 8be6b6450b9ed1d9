package migrate

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// required returns the versions that the go.mod of bench requires, by module.
func required() map[string]string {
	versions := map[string]string{}
	for line := range strings.Lines(string(must(os.ReadFile("../go.mod")))) {
		if fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require ")); len(fields) >= 2 && strings.HasPrefix(fields[1], "v") {
			versions[fields[0]] = strings.TrimPrefix(fields[1], "v")
		}
	}
	return versions
}

// documents returns the text of pages in docs/choose, one after the other.
func documents(names ...string) (text string) {
	for _, name := range names {
		text += string(must(os.ReadFile("../../docs/choose/" + name)))
	}
	return text
}

// pages are those that name limiters with their versions.
var pages = map[string]string{
	"migrate":    documents("migrate.md", "migrate-framework.md", "migrate-library.md"),
	"compare.md": documents("compare.md"),
}

// The limiters of the pages, by module. Each page names them with their versions.
var limiters = map[string]string{
	"github.com/gofiber/fiber/v3":               "Fiber",
	"github.com/labstack/echo/v5":               "Echo",
	"github.com/ulule/limiter/v3":               "ulule/limiter",
	"github.com/gofiber/fiber/v2":               "Fiber",
	"github.com/JGLTechnologies/gin-rate-limit": "JGLTechnologies/gin-rate-limit",
	"github.com/go-chi/httprate":                "go-chi/httprate",
	"github.com/go-chi/httprate-redis":          "httprate-redis",
	"github.com/go-redis/redis_rate/v10":        "go-redis/redis_rate",
	"github.com/didip/tollbooth/v8":             "didip/tollbooth",
	"github.com/labstack/echo/v4":               "Echo",
	"github.com/sethvargo/go-limiter":           "sethvargo/go-limiter",
	"github.com/throttled/throttled/v2":         "throttled/throttled",
	"golang.org/x/time":                         "golang.org/x/time/rate",
}

// The pages name the versions that are tested. Those that are measured are of the same module.
func TestPagesNameTheTestedVersions(t *testing.T) {
	t.Parallel()
	tested := required()
	for module, name := range limiters {
		version := tested[module]
		if version == "" {
			t.Errorf("go.mod does not require %s", module)
		}
		for page, text := range pages {
			if !strings.Contains(text, name+" "+version) {
				t.Errorf("%s does not name %s %s", page, name, version)
			}
		}
	}
	number := regexp.MustCompile(`\d+(?:\.\d+)+(?:/\d+)?`)
	for page, text := range pages {
		for _, found := range number.FindAllString(text, -1) {
			known := found == expressRateLimit || strings.Count(found, ".") != 2 // such as an address
			for module := range limiters {
				known = known || tested[module] == found
			}
			if !known {
				t.Errorf("%s names version %s, which is not tested", page, found)
			}
		}
	}
}

// expressRateLimit is a version of another language, which nothing here runs.
const expressRateLimit = "8.7.4"

// The pages on migration quote what each limiter denies with.
func TestThePagesQuoteDenials(t *testing.T) {
	t.Parallel()
	text := pages["migrate"]
	for _, p := range pairs {
		if !strings.Contains(text, "| 429 | `"+p.body+"`") && p.name != "golang.org/x/time/rate" {
			t.Errorf("no page says that %s denies with %q", p.name, p.body)
		}
	}
}
