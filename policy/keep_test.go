package policy_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/policy"
)

func TestTheLastGoodFileIsKept(t *testing.T) {
	t.Parallel()
	options := quiet()
	options.Keep = filepath.Join(t.TempDir(), "kept.yaml")
	from := &source{}
	begin := func(want string) *policy.Set {
		t.Helper()
		set := must.Get(policy.From(from, options))(t)
		decides(t, set, want)
		return set
	}
	from.put("policies: 1")
	if _, err := policy.From(from, options); err == nil {
		t.Fatal("no error, though nothing was kept")
	}
	from.put(simple(1))
	set := begin("v1")
	from.put(simple(2))
	must.OK(t, set.Reload(context.Background()))
	from.put("policies: 1")
	set = begin("v2")
	if set.Status().Err == nil {
		t.Error("the status does not say that the file was refused")
	}
	from.put(simple(3))
	must.OK(t, set.Reload(context.Background()))
	must.Get(set.Rollback())(t)
	from.put("")
	begin("v2")

	// Nobody else can read it, also where the directory is everybody's.
	if info, err := os.Stat(options.Keep); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kept as %v: %v", info.Mode(), err)
	}
	write(t, options.Keep, "policies: {}")
	var wrong *policy.Error
	if _, err := policy.From(from, options); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "the version that was kept can't be used either: policy: "+options.Keep) {
		t.Errorf("neither can be used: %v", err)
	}
}

// The policy file itself is no place for what was kept: a roll-back would write over it.
func TestThePolicyFileIsNotKeptInItself(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name, link := filepath.Join(dir, "limits.yaml"), filepath.Join(dir, "link.yaml")
	must.OK(t, os.WriteFile(name, []byte("policies: 1"), 0o600))
	options := quiet()
	kept := []string{name, filepath.Join(dir, ".", "a", "..", "limits.yaml")}
	if os.Symlink(name, link) == nil {
		kept = append(kept, link)
	}
	for _, options.Keep = range kept {
		check.Fails(t, options.Keep, check.ErrorOf(policy.Load(name, options)), "names the policy file itself")
	}
}

// A second Options is no second chance to say something: it is refused by each function that takes them.
func TestMoreThanOneOptions(t *testing.T) {
	t.Parallel()
	file := policy.File{Name: "a", Text: []byte("{}")}
	for name, err := range map[string]error{
		"Parse": check.ErrorOf(policy.Parse("a", nil, quiet(), quiet())),
		"Diff":  check.ErrorOf(policy.Diff(file, file, quiet(), quiet())),
		"Test":  check.ErrorOf(policy.Test(file, file, quiet(), quiet())),
	} {
		check.Fails(t, name, err, "more than one Options")
	}
}
