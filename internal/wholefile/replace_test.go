package wholefile

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// Whoever has opened the file reads the old text to its end, and permissions and links stay as they are.
func TestReplace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name, link := filepath.Join(dir, "limits.yaml"), filepath.Join(dir, "current.yaml")
	must.OK(t, Replace(name, []byte("a")))
	if runtime.GOOS != "windows" {
		check.Equal(t, "the mode of a new file", must.Get(os.Stat(name))(t).Mode(), 0o600)
		must.OK(t, os.Chmod(name, 0o400))
		must.OK(t, os.Symlink(name, link))
	} else {
		link = name
	}
	open := must.Get(os.Open(name))(t)
	before := must.Get(open.Stat())(t)
	must.OK(t, Replace(link, []byte("bb")))
	check.Equal(t, "the new text", string(must.Get(os.ReadFile(name))(t)), "bb")
	info := must.Get(os.Stat(name))(t)
	if os.SameFile(before, info) {
		t.Error("it was written in place, where a reader finds a part of it")
	}
	must.OK(t, open.Close())
	if runtime.GOOS != "windows" {
		check.Equal(t, "the mode", info.Mode(), 0o400)
		if must.Get(os.Lstat(link))(t).Mode().IsRegular() {
			t.Error("the link is replaced")
		}
	}
	check.Fails(t, "a directory", Replace(dir, nil), "no regular file")
	check.Fails(t, "in no directory", Replace(filepath.Join(dir, "a", "b"), nil), "")
	check.Equal(t, "files that are left", len(must.Get(filepath.Glob(filepath.Join(dir, "*.yaml.*")))(t)), 0)
}
