// The command write builds the image of weblimitd and writes it to a folder: a file for each architecture, and one for all of
// them.
//
//	go run ./internal/test/image/write -o dist
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/weblimit/weblimit/internal/test/image"
)

func main() {
	to := flag.String("o", ".", "folder for the files")
	name := flag.String("name", "weblimitd:latest", "name of the image, with a tag")
	archs := flag.String("arch", strings.Join(image.Architectures(), ","), "architectures, with commas between them")
	flag.Parse()
	if !strings.Contains(path.Base(*name), ":") {
		*name += ":latest" // as docker and podman do
	}
	if err := write(*to, *name, strings.Split(*archs, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func write(to, name string, archs []string) error {
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	roots, err := image.SystemRoots()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	var all []*image.Image
	for _, arch := range archs {
		binary, err := image.Build(".", dir, arch)
		if err != nil {
			return err
		}
		i, err := image.New(arch, binary, roots)
		if err != nil {
			return err
		}
		if err := file(filepath.Join(to, "weblimitd-linux-"+arch+".tar"), name, i); err != nil {
			return err
		}
		all = append(all, i)
	}
	if len(all) == 1 {
		return nil
	}
	return file(filepath.Join(to, "weblimitd.tar"), name, all...)
}

// file writes images into one file, and prints what they are.
func file(to, name string, images ...*image.Image) error {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	if err := errors.Join(image.Write(w, name, images...), w.Flush(), f.Close()); err != nil {
		return err
	}
	for _, i := range images {
		fmt.Printf("%s\t%s\t%.1f MB\n", to, i.Digest, float64(i.Size)/1e6)
	}
	return nil
}
