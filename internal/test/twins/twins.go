// Package twins writes adapters of two majors of one framework from one source. The files of the older major are the
// source, the files of the newer one are copies in its words. What the majors do in different ways stands in
// version.go of each, and in other files that have no copy. `make twins` writes the copies, and a test compares.
package twins

import (
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Twin is an adapter that has copies of the files of another.
type Twin struct {
	From, To string            // folders
	Files    []string          // in From
	words    *strings.Replacer // of From, and of To; also in the names of files
}

// The words of the frameworks' majors.
var (
	echo = []string{
		"echolimit", "echo5limit",
		"labstack/echo/v4", "labstack/echo/v5",
		"echo.ContextKey", "echo.ContextKey", // has the next in it
		"echo.Context", "*echo.Context",
	}
	fiber = []string{
		"fiberlimit", "fiber3limit",
		"gofiber/fiber/v2/utils", "gofiber/utils/v2",
		"gofiber/fiber/v2", "gofiber/fiber/v3",
		"*fiber.Ctx", "fiber.Ctx",
		"c.Context()", "c.RequestCtx()", // fasthttp's
		"c.UserContext()", "c.Context()",
		"c.SetUserContext(", "c.SetContext(",
		"c.BodyParser(&message)", "c.Bind().Body(&message)",
		", -1)", ", fiber.TestConfig{})",
		"fiber.New(fiber.Config{DisableStartupMessage: true})", "fiber.New()",
		"Listener(l)", "Listener(l, fiber.ListenConfig{DisableStartupMessage: true})",
		"Listener(ln)", "Listener(ln, fiber.ListenConfig{DisableStartupMessage: true})",
	}

	// The descriptions of applications in internal/suites/frameworks.
	described = []string{
		") App {", ") frameworks.App {",
		"\tStd\n", "\tframeworks.Std\n",
		"h Handler,", "h frameworks.Handler,",
		"Colons.", "frameworks.Colons.",
	}
)

// inMajors makes the words of a package of suites, some of whose files have copies in another package: there, its name
// stands before its own names.
func inMajors(own string, words ...[]string) *strings.Replacer {
	imported := `"github.com/weblimit/weblimit/%s"` + "\n\t" + `"github.com/weblimit/weblimit/internal/suites/` + own + `"`
	return strings.NewReplacer(append(slices.Concat(words...),
		"package "+own, "package majors",
		`"github.com/weblimit/weblimit/echolimit"`, fmt.Sprintf(imported, "echo5limit"),
		`"github.com/weblimit/weblimit/fiberlimit"`, fmt.Sprintf(imported, "fiber3limit"),
	)...)
}

// Twins are all packages with copies.
var Twins = []Twin{
	{
		"fiberlimit", "fiber3limit",
		[]string{
			"fiberlimit.go", "follow.go", "guard.go", "native.go", "request.go", "response.go", "routes.go", "settings.go", "usage.go",
			"bench_test.go", "example_guard_test.go", "example_test.go", "example_usage_test.go", "framework_test.go", "suite_test.go",
		},
		strings.NewReplacer(fiber...),
	},
	{
		"echolimit", "echo5limit",
		[]string{
			"echolimit.go", "native.go", "request.go", "usage.go",
			"bench_test.go", "echo_test.go", "example_guard_test.go", "example_test.go", "example_usage_test.go", "framework_test.go",
		},
		strings.NewReplacer(echo...),
	},
	{
		"internal/suites/frameworks", "internal/suites/majors",
		[]string{"echo.go"},
		inMajors("frameworks", described, echo, []string{
			"echo.go", "echo_test.go",
			"Each[", "frameworks.Each[",
			`"io"`, `"log/slog"`,
			"Logger.SetOutput(io.Discard)", "Logger = slog.New(slog.DiscardHandler)",
			"name := range c.ParamNames()", "p := range c.PathValues()",
			"(name, c.Param(name))", "(p.Name, p.Value)",
		}),
	},
	{
		"internal/suites/frameworks", "internal/suites/majors",
		[]string{"fiber.go"},
		inMajors("frameworks", described, fiber, []string{
			"fiber.go", "fiber_test.go",
			"Each[fiber.Handler](", "frameworks.Each[any](",
			", chain...)", ", chain[0], chain[1:]...)",
			"app.Add(method,", "app.Add([]string{method},",
		}),
	},
	{
		"internal/suites/adversary", "internal/suites/majors",
		[]string{"fiber_test.go"},
		inMajors("adversary", fiber, []string{
			"fiber_test.go", "attacked_test.go",
			"Enter(", "adversary.Enter(",
			"SignedIn(", "adversary.SignedIn(",
			"range Routes", "range adversary.Routes",
			"Colons.", "adversary.Colons.",
			"*Visit)", "*adversary.Visit)",
			"UserKey", "adversary.UserKey",
		}),
	},
}

// Copies returns the files of To that are copies, by their paths.
func (t Twin) Copies(root string) (map[string]string, error) {
	copies := map[string]string{}
	for _, name := range t.Files {
		source, err := os.ReadFile(filepath.Join(root, t.From, name))
		if err != nil {
			return nil, err
		}
		head := fmt.Sprintf("// Code generated from %s/%s by make twins; DO NOT EDIT.\n\n", t.From, name)
		text, err := format.Source([]byte(head + t.words.Replace(string(source))))
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", t.From, name, err)
		}
		copies[filepath.Join(root, t.To, t.words.Replace(name))] = string(text)
	}
	return copies, nil
}
