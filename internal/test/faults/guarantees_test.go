package faults_test

import (
	"path/filepath"
	"testing"

	"github.com/weblimit/weblimit/internal/test/documents"
)

// docs/run/guarantees.md and these tests name each other.
func TestGuaranteesNameTheirTests(t *testing.T) {
	t.Parallel()
	references := documents.References(documents.Read(t, "run/guarantees.md") + documents.Read(t, "run/redis.md"))
	documents.Exist(t, references)
	if len(references) < 20 {
		t.Errorf("the documents name %d tests", len(references))
	}
	named := map[string]bool{t.Name(): true, "TestMain": true, "TestChild": true}
	for _, r := range references {
		named[r.Test] = true
	}
	documents.Sources(t, "_test.go", func(path, source string) {
		if filepath.Base(filepath.Dir(path)) != "faults" {
			return
		}
		for _, name := range documents.Tests(source) {
			if !named[name] {
				t.Errorf("%s of %s is in neither document", name, path)
			}
		}
	})
}
