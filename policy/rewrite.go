package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// blankLine is a comment that stands for a blank line while a file is written again: the YAML library keeps comments, and
// no blank lines. Nobody writes the invisible separator in it.
const blankLine = "#\u2063blank"

// Format returns a file in its usual form: two blanks for each level, one blank line at most between
// fields, no blanks at the ends of lines. Comments, the order of fields and what the author has put in
// braces or quotes stay. JSON stays JSON. It returns an error for a file that can't be read, and never a
// file that says something else.
func Format(file File) ([]byte, error) {
	before, err := nodesOf(file)
	if err != nil {
		return nil, err
	}
	made, err := formatted(file.Text)
	if err != nil {
		return nil, fmt.Errorf("weblimit: policy: %s: %w", file.Name, err)
	}
	// The YAML library is not trusted to write what it has read.
	after, err := nodesOf(File{file.Name, made})
	if err != nil || !slices.Equal(before, after) {
		return nil, fmt.Errorf("weblimit: policy: %s: it can't be formatted without a change of what it says; are there blank lines in a text?", file.Name)
	}
	return made, nil
}

// nodesOf returns all values of a file in one line each, without their places.
func nodesOf(file File) ([]string, error) {
	p := &problems{file: file.Name}
	root := read(file.Text, p)
	if err := p.err(); err != nil {
		return nil, err
	}
	var all []string
	var walk func(*node)
	walk = func(n *node) {
		all = append(all, fmt.Sprintf("%s %d %q", n.path(), n.kind, n.text))
		for _, f := range n.fields {
			walk(f.value)
		}
		for _, item := range n.items {
			walk(item)
		}
	}
	walk(root)
	return all, nil
}

func formatted(text []byte) ([]byte, error) {
	if json.Valid(text) {
		var made bytes.Buffer
		if err := json.Indent(&made, bytes.TrimSpace(text), "", "  "); err != nil {
			return nil, err
		}
		return append(made.Bytes(), '\n'), nil
	}
	if bytes.Contains(text, []byte(blankLine)) {
		return nil, errors.New("it holds an invisible separator")
	}
	made, err := encoded(marked(string(text)))
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSpace(string(made)), "\n") {
		if strings.TrimSpace(line) == blankLine {
			line = ""
		}
		if line == "" && len(lines) > 0 && lines[len(lines)-1] == "" {
			continue
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return []byte(strings.TrimLeft(strings.Join(lines, "\n"), "\n") + "\n"), nil
}

// marked replaces blank lines by comments, which survive.
func marked(text string) []byte {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) != "" || i == len(lines)-1 {
			continue
		}
		indent := ""
		for _, next := range lines[i+1:] {
			if trimmed := strings.TrimLeft(next, " "); trimmed != "" {
				indent = next[:len(next)-len(trimmed)]
				break
			}
		}
		lines[i] = indent + blankLine
	}
	return []byte(strings.Join(lines, "\n"))
}

func encoded(text []byte) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	var made bytes.Buffer
	encoder := yaml.NewEncoder(&made)
	encoder.SetIndent(2)
	if err := encoder.Encode(&document); err != nil {
		return nil, err
	}
	if err := encoder.Close(); err != nil {
		return nil, err
	}
	return made.Bytes(), nil
}
