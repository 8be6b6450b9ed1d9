package main

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weblimit/weblimit/internal/settings"
	"github.com/weblimit/weblimit/policy/yamlfile"
)

// readAll reads the settings of flags, the environment and the file that --config names.
func (o *options) readAll(environ []string) error {
	env := func(variable string) string { return o.variables[variable] }
	var file map[string]settings.Given
	var errs []error
	if name := o.set.Early("config", env); name != "" {
		file, errs = o.readFile(name)
	}
	errs = append(errs, o.set.Variables(environ, isForeign))
	errs = append(errs, o.set.Read(env, file))
	if o.entry != nil {
		errs = append(errs, o.entry.translate())
	}
	return errors.Join(errs...)
}

// settingsFormat bounds a settings file. It has a line for each setting, and lists such as those of trusted proxies.
var settingsFormat = yamlfile.Format{Bytes: settings.MaxFile, Marks: 20_000, Room: "10,000 settings", Second: "a settings file is one document"}

// readFile reads a settings file: YAML, one level, names as those of flags. Values are texts, numbers,
// true, false, or lists of them.
func (o *options) readFile(name string) (given map[string]settings.Given, errs []error) {
	text, err := settings.ReadFile(name)
	if err != nil {
		return nil, []error{fmt.Errorf("the settings file: %w", err)}
	}
	root, problem := settingsFormat.Parse(text)
	switch {
	case problem != nil:
		problem.File = name
		return nil, []error{errors.New(problem.String())}
	case root == nil:
		return nil, nil // nothing but comments
	case root.Kind != yaml.MappingNode:
		return nil, []error{fmt.Errorf("%s:%d:%d: a settings file has lines such as listen: 127.0.0.1:9180", name, root.Line, root.Column)}
	}
	given = map[string]settings.Given{}
	lines := yamlfile.Keys{}
	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		place := fmt.Sprintf("%s:%d:%d: %s", name, key.Line, key.Column, key.Value)
		setting := o.set.ByName(key.Value)
		switch {
		case setting == nil:
			errs = append(errs, fmt.Errorf("%s:%d:%d: %w", name, key.Line, key.Column, o.set.Unknown("setting", key.Value, func(known string) string { return known })))
			continue
		case setting.EnvOnly:
			errs = append(errs, fmt.Errorf("%s: a secret does not belong into this file: set %s", place, settings.Variable(key.Value)))
			continue
		case key.Value == "config":
			errs = append(errs, fmt.Errorf("%s: a settings file names no other", place))
			continue
		}
		if problem := lines.Add(key.Value, key.Line); problem != "" {
			errs = append(errs, fmt.Errorf("%s:%d:%d: %s", name, key.Line, key.Column, problem))
			continue
		}
		t, err := textOf(value)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", place, err))
			continue
		}
		given[key.Value] = settings.Given{Text: t, Place: place}
	}
	return given, errs
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
