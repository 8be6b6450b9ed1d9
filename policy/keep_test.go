package policy_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
