package wholefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace writes a file so that whoever reads it, and whatever happens meanwhile, has the old text or the new one and never
// a part. It keeps the permissions of the one that is there; a new one is for its owner alone. What a symbolic link names
// is replaced, and not the link.
func Replace(name string, text []byte) (err error) {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	mode := fs.FileMode(0o600)
	switch info, err := os.Stat(name); {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file", name)
	case err == nil:
		mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*") // nobody else can read it
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(next.Name())
		}
	}()
	_, err = next.Write(text)
	if err == nil {
		err = next.Chmod(mode)
	}
	if err == nil {
		err = next.Sync()
	}
	if closed := next.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("%s: %w", next.Name(), err)
	}
	return os.Rename(next.Name(), name)
}
