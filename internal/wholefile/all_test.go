package wholefile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// Links that are swapped while files are read make no mixture of two versions, however old the files are,
// and a file that is gone by then is no error.
func TestAllFilesAreOfOneMoment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		for version, text := range map[string]string{"v1": "one", "v2": "two"} {
			must.OK(t, os.Mkdir(filepath.Join(dir, version), 0o700))
			for _, name := range []string{"a", "b"} {
				write(t, filepath.Join(dir, version, name), text, time.Hour)
			}
		}
		write(t, filepath.Join(dir, "v1", "old"), "one", time.Hour)
		data := filepath.Join(dir, "data")
		swap := func(to string) {
			must.OK(t, errors.Join(os.Symlink(to, data+"~"), os.Rename(data+"~", data)))
		}
		for at := range 3 { // calls of names before the links are swapped
			swap("v1")
			calls := 0
			found := must.Get(ReadAll(t.Context(), func() ([]string, error) {
				list, err := filepath.Glob(filepath.Join(data, "*")) // of which the first reads what the others do not have
				if calls++; calls == at+1 {
					swap("v2")
				}
				return list, err
			}, 100, 1000))(t)
			want := "two"
			if at == 2 { // there was no third call: nothing had changed
				want = "one"
			}
			for _, f := range found {
				check.Equal(t, f.Name, string(f.Text), want)
			}
		}
		list := func() ([]string, error) { return filepath.Glob(filepath.Join(dir, "v1", "*")) }
		check.Fails(t, "more bytes than all may have", check.ErrorOf(ReadAll(t.Context(), list, 100, 8)), "more than 8 bytes together")
		check.Equal(t, "files of no bytes more", len(must.Get(ReadAll(t.Context(), list, 100, 9))(t)), 3)
		began := time.Now()
		check.Is(t, "a file that is not there", check.ErrorOf(ReadAll(t.Context(), func() ([]string, error) { return []string{dir + "/none"}, nil }, 100, 100)), os.ErrNotExist)
		check.Equal(t, "how long it is waited for", time.Since(began), 0)
	})
}
