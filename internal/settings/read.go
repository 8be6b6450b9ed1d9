package settings

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// MaxFile bounds a file that is read once, at the start: settings, a password, certificate authorities.
const MaxFile = 1 << 20

// maxPassword bounds a password.
const maxPassword = 4096

// ReadFile reads such a file. It may be a pipe, as of a shell's <(…), of which nobody can tell the size before.
func ReadFile(name string) ([]byte, error) {
	file, err := os.Open(name) //nolint:gosec // G304: the operator names it
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return readAll(name, file)
}

func readAll(name string, from io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, MaxFile+1))
	if err == nil && len(text) > MaxFile {
		err = fmt.Errorf("%s has more than %d bytes", name, MaxFile)
	}
	return text, err
}

// ReadPassword reads a file of one line, the password. "-" is input, if that is not nil.
func ReadPassword(name string, input io.Reader) (string, error) {
	var text []byte
	var err error
	if name == "-" && input != nil {
		text, err = readAll("standard input", input)
	} else {
		text, err = ReadFile(name)
	}
	if err != nil {
		return "", fmt.Errorf("the password can't be read: %w", err)
	}
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" || len(password) > maxPassword || strings.ContainsAny(password, "\r\n") {
		return "", errors.New("the file of the password must hold one line, the password")
	}
	return password, nil
}

// OnePassword returns the password of the setting name-password, name-password-file or the URL, whichever of them
// has it. Where several have one, nobody knows which is meant.
func OnePassword(name, inURL string, inEnv, file String, input io.Reader) (string, error) {
	found := 0
	for _, there := range []bool{inURL != "", inEnv != "", file != ""} {
		if there {
			found++
		}
	}
	if found > 1 {
		return "", fmt.Errorf("--%s: the password is in several places: choose one of the URL, the environment and --%s-password-file", name, name)
	}
	if file == "" {
		return inURL + string(inEnv), nil
	}
	password, err := ReadPassword(string(file), input)
	if err != nil {
		return "", fmt.Errorf("--%s-password-file: %w", name, err)
	}
	return password, nil
}
