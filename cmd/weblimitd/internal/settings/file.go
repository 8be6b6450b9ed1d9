package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readFile reads a settings file: YAML, one level, names as those of flags. Values are texts, numbers,
// true, false, or lists of them.
func (s *Set) readFile(name, fileSetting string, read func(string) ([]byte, error)) (settings map[string]given, errs []error) {
	text, err := read(name)
	if err != nil {
		return nil, []error{fmt.Errorf("the settings file: %w", err)}
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	if err := d.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil // nothing but comments
	} else if err != nil {
		return nil, []error{fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))}
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, []error{fmt.Errorf("%s: a settings file is one document", name)}
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, []error{fmt.Errorf("%s:%d:%d: a settings file has lines such as listen: 127.0.0.1:9180", name, root.Line, root.Column)}
	}
	settings = map[string]given{}
	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		place := fmt.Sprintf("%s:%d:%d: %s", name, key.Line, key.Column, key.Value)
		setting := s.byName[key.Value]
		switch {
		case setting == nil:
			errs = append(errs, fmt.Errorf("%s:%d:%d: %w", name, key.Line, key.Column, s.unknown("setting", key.Value, func(known string) string { return known })))
			continue
		case setting.EnvOnly:
			errs = append(errs, fmt.Errorf("%s: a secret does not belong into this file: set %s", place, s.Variable(key.Value)))
			continue
		case key.Value == fileSetting:
			errs = append(errs, fmt.Errorf("%s: a settings file names no other", place))
			continue
		}
		if _, twice := settings[key.Value]; twice {
			errs = append(errs, fmt.Errorf("%s: is there twice", place))
			continue
		}
		t, err := textOf(value)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", place, err))
			continue
		}
		settings[key.Value] = given{t, place}
	}
	return settings, errs
}

// textOf returns a value as it would be in a flag.
func textOf(n *yaml.Node) (string, error) {
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag != "!!null" && strings.TrimSpace(n.Value) != "":
		return n.Value, nil
	case n.Kind == yaml.SequenceNode && len(n.Content) > 0:
		parts := make([]string, len(n.Content))
		for i, part := range n.Content {
			if part.Kind != yaml.ScalarNode || strings.Contains(part.Value, ",") {
				return "", errors.New("a list has texts without commas")
			}
			parts[i] = part.Value
		}
		return strings.Join(parts, ","), nil
	}
	return "", errors.New("needs a value: a text, a number, true, false or a list")
}
