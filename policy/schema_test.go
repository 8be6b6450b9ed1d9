package policy_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/policy"
)

var update = flag.Bool("update", false, "write files instead of comparing them")

// Each field of a policy and of a limit has its row in the page for people.
func TestThePageHasEveryField(t *testing.T) {
	t.Parallel()
	page := string(must.Get(os.ReadFile("../docs/service/policy.md"))(t))
	var schema struct {
		Defs map[string]struct {
			Properties map[string]any `json:"properties"`
		} `json:"$defs"`
	}
	must.OK(t, json.Unmarshal(policy.Schema(), &schema))
	n := 0
	for object, of := range schema.Defs {
		for field := range of.Properties {
			n++
			if !regexp.MustCompile("`[^`\n]*\\b" + field + "\\b[^`\n]*`").MatchString(page) {
				t.Errorf("docs/service/policy.md does not name the field %s of %s", field, object)
			}
		}
	}
	if n < 40 {
		t.Errorf("the schema has only %d fields: is it still read?", n)
	}
}

// The published schema is that of the loader.
func TestTheSchemaIsPublished(t *testing.T) {
	t.Parallel()
	const name = "../docs/policy.schema.json"
	if *update {
		write(t, name, string(policy.Schema()))
	}
	published := must.Get(os.ReadFile(name))(t)
	if !bytes.Equal(published, policy.Schema()) {
		t.Errorf("%s is not policy.Schema(); if the change is meant, run go test ./policy -run Schema -update", name)
	}
}
