package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"path"
	"time"
)

// entry is a file or a link of a tar archive.
type entry struct {
	content []byte
	link    string // where a link leads, or ""
	mode    int64
}

// archive writes entries as a tar archive, in the order of their names, with the folders that they are in. Nothing in it
// depends on when, where and by whom it is written.
func archive(w io.Writer, entries map[string]entry, folders bool) error {
	to := tar.NewWriter(w)
	written := map[string]bool{".": true}
	var folder func(name string) error
	folder = func(name string) error {
		if written[name] {
			return nil
		}
		if err := folder(path.Dir(name)); err != nil {
			return err
		}
		written[name] = true
		return to.WriteHeader(header(tar.TypeDir, name+"/", 0o755))
	}
	for _, name := range sorted(entries) {
		if folders {
			if err := folder(path.Dir(name)); err != nil {
				return err
			}
		}
		e := entries[name]
		h := header(tar.TypeReg, name, e.mode)
		if e.link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
		}
		h.Size = int64(len(e.content))
		if err := to.WriteHeader(h); err != nil {
			return err
		}
		if _, err := to.Write(e.content); err != nil {
			return err
		}
	}
	return to.Close()
}

// header belongs to root, and to no time: 1970.
func header(kind byte, name string, mode int64) *tar.Header {
	return &tar.Header{Typeflag: kind, Name: name, Mode: mode, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
}

// layer returns the files of the image as a tar archive, and the same compressed.
func layer(binary, roots, bill []byte) (plain, compressed []byte, err error) {
	var b bytes.Buffer
	err = archive(&b, map[string]entry{
		Program: {content: binary, mode: 0o755}, Entry: {link: "../" + Program, mode: 0o777},
		Roots: {content: roots, mode: 0o644}, Bill: {content: bill, mode: 0o644},
	}, true)
	if err != nil {
		return nil, nil, err
	}
	var z bytes.Buffer
	to := gzip.NewWriter(&z) // without a name and a time
	if _, err := to.Write(b.Bytes()); err != nil {
		return nil, nil, err
	}
	if err := to.Close(); err != nil {
		return nil, nil, err
	}
	return b.Bytes(), z.Bytes(), nil
}
