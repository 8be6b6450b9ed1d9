// Package twins writes adapters of two majors of one framework from one source. The files of the older major are the
// source, the files of the newer one are copies in its words. What the majors do in different ways stands in
// version.go of each, and in other files that have no copy. `make twins` writes the copies, and a test compares.
package twins

import (
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"strings"
)

// Twin is an adapter that has copies of the files of another.
type Twin struct {
	From, To string            // folders
	Files    []string          // in From; a copy whose name has the one of the folder has that of the other
	words    *strings.Replacer // of From, and of To
}

// Twins are all adapters with copies.
var Twins = []Twin{
	{
		"fiberlimit", "fiber3limit",
		[]string{
			"fiberlimit.go", "follow.go", "guard.go", "native.go", "request.go", "response.go", "routes.go", "settings.go",
			"bench_test.go", "example_guard_test.go", "example_test.go", "framework_test.go", "suite_test.go",
		},
		strings.NewReplacer(
			"fiberlimit", "fiber3limit",
			"gofiber/fiber/v2/utils", "gofiber/utils/v2",
			"gofiber/fiber/v2", "gofiber/fiber/v3",
			"*fiber.Ctx", "fiber.Ctx",
			"c.Context()", "c.RequestCtx()", // fasthttp's
			"c.UserContext()", "c.Context()",
			"c.SetUserContext(", "c.SetContext(",
			"c.BodyParser(&message)", "c.Bind().Body(&message)",
			", -1)", ", fiber.TestConfig{})",
		),
	},
	{
		"echolimit", "echo5limit",
		[]string{
			"echolimit.go", "native.go", "request.go",
			"bench_test.go", "echo_test.go", "example_guard_test.go", "example_test.go", "framework_test.go",
		},
		strings.NewReplacer(
			"echolimit", "echo5limit",
			"labstack/echo/v4", "labstack/echo/v5",
			"echo.ContextKey", "echo.ContextKey", // has the next in it
			"echo.Context", "*echo.Context",
		),
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
		copies[filepath.Join(root, t.To, strings.ReplaceAll(name, t.From, t.To))] = string(text)
	}
	return copies, nil
}
