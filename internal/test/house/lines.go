package main

import (
	"bytes"
	"go/ast"
	"go/scanner"
	"go/token"
	"strings"
)

// lines counts the lines of each room.
func (h *house) lines() table {
	t := table{title: "lines of Go", head: []string{"files", "lines", "code", "comments", "blank", "% comments"}}
	for _, r := range h.rooms {
		var all, code, comments int
		for _, f := range r.files {
			a, c, m := countLines(f.source)
			all, code, comments = all+a, code+c, comments+m
		}
		t.rows = append(t.rows, row{r.folder, []int{len(r.files), all, code, comments, all - code - comments, share(comments, code+comments)}})
	}
	return t
}

// generated counts the lines of generated files, which are copies of others that people write.
func (h *house) generated() (n int) {
	h.each(func(f *file) {
		if ast.IsGenerated(f.parsed) {
			all, _, _ := countLines(f.source)
			n += all
		}
	})
	return n
}

// share returns part of all in percent, rounded.
func share(part, all int) int {
	if all == 0 {
		return 0
	}
	return (200*part + all) / (2 * all)
}

// countLines returns how many lines source has, on how many of them there is code, and on how many nothing but a comment.
func countLines(source []byte) (all, code, comments int) {
	const (
		commentLine = 1 + iota
		codeLine
	)
	kinds := map[int]int{}
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	for {
		at, tok, text := s.Scan()
		if tok == token.EOF {
			break
		}
		kind := codeLine
		if tok == token.COMMENT {
			kind = commentLine
		} else if tok == token.SEMICOLON && text == "\n" {
			continue // put in by the scanner
		}
		first := file.Line(at)
		for line := first; line <= first+strings.Count(text, "\n"); line++ {
			kinds[line] = max(kinds[line], kind)
		}
	}
	for _, kind := range kinds {
		if kind == codeLine {
			code++
		} else {
			comments++
		}
	}
	return bytes.Count(source, []byte("\n")), code, comments
}
