package pageapi_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/pageapi"
	"github.com/weblimit/weblimit/internal/test/must"
)

// Every field of an answer is one that the page fills in: a field that is added here alone would be zero for ever.
func TestThePageFillsInEveryField(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	for _, file := range must.Get(filepath.Glob("../../inspect/*.go"))(t) {
		if !strings.HasSuffix(file, "_test.go") {
			source.Write(must.Get(os.ReadFile(file))(t))
		}
	}
	seen := map[reflect.Type]bool{}
	var walk func(of reflect.Type)
	walk = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || seen[of] || of.PkgPath() == "time" {
			return
		}
		seen[of] = true
		for i := range of.NumField() {
			field := of.Field(i)
			if field.Tag.Get("json") == "" && !field.Anonymous {
				t.Errorf("%v.%s has no name in JSON", of, field.Name)
			}
			set := regexp.MustCompile(`\b` + field.Name + `(:|( \S+|,[^=\n]*)? (\+)?= )|, [^=\n]*\.` + field.Name + `[^=\n]* = |\.` + field.Name + `(\+\+|,.* = )`)
			if !set.MatchString(source.String()) {
				t.Errorf("package inspect never sets %v.%s", of, field.Name)
			}
			walk(field.Type)
		}
	}
	for _, answer := range []any{pageapi.Session{}, pageapi.Limits{}, pageapi.Explanation{}, pageapi.Blocks{}, pageapi.Done{}} {
		walk(reflect.TypeOf(answer))
	}
	if len(seen) < 15 {
		t.Errorf("looked at %d types", len(seen))
	}
}
