package wholefile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// File is a file that was read.
type File struct {
	Name string
	Text []byte
}

// ReadAll reads the files that names returns, of at most most bytes each and all bytes together. It reads
// each as [Read] does, and all as they are at one moment: where links are swapped meanwhile, the files of
// two versions would have limits that neither has.
func ReadAll(ctx context.Context, names func() ([]string, error), most, all int64) ([]File, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	last, err := readPass(ctx, names, most, all)
	for again := false; ; again = true {
		switch {
		case again && ctx.Err() != nil:
			return nil, fmt.Errorf("%s: %w", last.first(), ErrChanging)
		case err != nil && !last.vanished(err, names):
			return nil, err
		case err == nil && last.isOld() && slices.EqualFunc(last, look(names), reading.is):
			return last.files(), nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(settle):
		}
		before, failed := last, err
		if last, err = readPass(ctx, names, most, all); err == nil && failed == nil && slices.EqualFunc(last, before, reading.equal) {
			return last.files(), nil
		}
	}
}

// pass is what reading all files once has found.
type pass []reading

// readPass reads all files once. With an error it returns the names of the files.
func readPass(ctx context.Context, names func() ([]string, error), most, all int64) (pass, error) {
	list, err := names()
	if err != nil {
		return nil, err
	}
	found := make(pass, len(list))
	for i, name := range list {
		found[i].name = name
	}
	left := all
	for i, name := range list {
		r, err := readOnce(ctx, name, most)
		if err != nil {
			return found, err
		}
		if left -= int64(len(r.text)); left < 0 {
			return found, fmt.Errorf("%s and %d more files have more than %d bytes together", list[0], len(list)-1, all)
		}
		r.name = name
		found[i] = r
	}
	return found, nil
}

// isOld reports whether no file was written just now, or while it was read.
func (p pass) isOld() bool {
	return !slices.ContainsFunc(p, func(r reading) bool { return r.torn || time.Since(r.info.ModTime()) < young })
}

// vanished reports whether an error is that of a file that was there when the names were read.
func (p pass) vanished(err error, names func() ([]string, error)) bool {
	if !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	now, err := names()
	return err == nil && !slices.EqualFunc(p, now, func(r reading, name string) bool { return r.name == name })
}

func (p pass) first() string {
	if len(p) == 0 {
		return "the files"
	}
	return p[0].name
}

func (p pass) files() []File {
	all := make([]File, len(p))
	for i, r := range p {
		all[i] = File{r.name, r.text}
	}
	return all
}
