package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// built is the tests of all units, as programs.
type built struct {
	dir      string
	programs []program
	broken   []outcome // what could not be built
	took     []buildTime
}

// program is the tests of one package.
type program struct {
	unit unit
	pkg  listed
	path string
}

// buildTime is what a unit took to build.
type buildTime struct {
	unit      unit
	wall, cpu time.Duration
}

// builders is how many units are built at the same time. Each uses all processors, but not all of the
// time: programs are linked on one.
const builders = 2

// build builds the tests of all units. Programs stay where they were built: those of which nothing has changed
// need not be linked again.
func build(ctx context.Context, units []unit) (*built, error) {
	dir, err := programsDir()
	if err != nil {
		return nil, err
	}
	b := &built{dir: dir}
	var mu sync.Mutex
	add := func(programs []program, broken []outcome, took buildTime) {
		mu.Lock()
		defer mu.Unlock()
		b.programs = append(b.programs, programs...)
		b.broken = append(b.broken, broken...)
		b.took = append(b.took, took)
	}
	places := make(chan struct{}, builders)
	var wg sync.WaitGroup
	for _, u := range units {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			add(u.build(ctx, dir))
		})
	}
	wg.Wait()
	return b, context.Cause(ctx)
}

// unused is after how long the programs of a checkout are removed.
const unused = 7 * 24 * time.Hour

// programsDir returns the directory for the programs of this checkout, some 2 GB: beside the build cache, since
// the directory for temporary files can be in memory. It removes those of checkouts that are not used any more.
func programsDir() (string, error) {
	root, err := filepath.Abs(".")
	if err != nil {
		return "", err
	}
	all, err := os.UserCacheDir()
	if err != nil { // there is no home
		all = os.TempDir()
	}
	all = filepath.Join(all, "weblimit-tests")
	hash := sha256.Sum256([]byte(root))
	dir := filepath.Join(all, hex.EncodeToString(hash[:8]))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	now := time.Now()
	if err := os.Chtimes(dir, now, now); err != nil {
		return "", err
	}
	others, err := os.ReadDir(all)
	if err != nil {
		return "", err
	}
	for _, other := range others {
		if info, err := other.Info(); err == nil && now.Sub(info.ModTime()) > unused {
			_ = os.RemoveAll(filepath.Join(all, other.Name())) // or another time
		}
	}
	return dir, nil
}

// build builds the tests of a unit.
func (u unit) build(ctx context.Context, dir string) (programs []program, broken []outcome, took buildTime) {
	took.unit = u
	began := time.Now()
	defer func() { took.wall = time.Since(began) }()
	for i, packages := range u.batches() {
		place := filepath.Join(dir, strings.NewReplacer("/", "_", ".", "main").Replace(u.dir), fmt.Sprintf("race-%t-%d", u.race, i))
		args := []string{"test", "-c", "-vet=off", "-ldflags=-w", "-o", place + "/"}
		if u.race {
			args = append(args, "-race")
		}
		for _, p := range packages {
			args = append(args, p.ImportPath)
		}
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = u.dir
		cmd.Env = compilerOptions()
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := os.MkdirAll(place, 0o700)
		if err == nil {
			err = cmd.Run()
		}
		if s := cmd.ProcessState; s != nil {
			took.cpu += s.UserTime() + s.SystemTime()
		}
		for _, p := range packages {
			programs = append(programs, program{u, p, filepath.Join(place, path.Base(p.ImportPath)+".test")})
		}
		if err == nil {
			continue
		}
		// What could not be built has an old program or none.
		broken = append(broken, u.notBuilt(packages, out.String(), err)...)
		programs = nil
	}
	return programs, broken, took
}

// compilerOptions has compilers collect garbage less often: they live for a second, and take a fifth less of a
// processor.
func compilerOptions() []string {
	if os.Getenv("GOGC") != "" {
		return nil // as the environment says
	}
	return append(os.Environ(), "GOGC=400")
}

// notBuilt tells what the compiler said of each package.
func (u unit) notBuilt(packages []listed, said string, err error) (broken []outcome) {
	var of string // what the lines are about: "# package" or "# package [package.test]" stands above them
	lines := make(map[string][]string)
	for line := range strings.Lines(said) {
		if name, ok := strings.CutPrefix(line, "# "); ok {
			of = strings.TrimSuffix(strings.Fields(name)[0], "_test")
		} else {
			lines[of] = append(lines[of], line)
		}
	}
	for _, p := range packages {
		if said := lines[p.ImportPath]; said != nil {
			broken = append(broken, outcome{program: program{unit: u, pkg: p}, result: "fail", rest: said})
			delete(lines, p.ImportPath)
		}
	}
	for of, said := range lines {
		broken = append(broken, outcome{program: program{unit: u, pkg: listed{ImportPath: of}}, result: "fail", rest: append(said, err.Error()+"\n")})
	}
	return broken
}

// batches splits the packages so that programs of a batch have different names.
func (u unit) batches() (batches [][]listed) {
	seen := make(map[string]int)
	for _, p := range u.packages {
		i := seen[path.Base(p.ImportPath)]
		seen[path.Base(p.ImportPath)]++
		if i == len(batches) {
			batches = append(batches, nil)
		}
		batches[i] = append(batches[i], p)
	}
	return batches
}
