package settings

import "io"

// Postgres are the settings of a command that say which PostgreSQL it is, and how to get in. libpq's variables
// count, too.
type Postgres struct {
	URL          String // "" for none
	PasswordFile String
}

// Add adds the settings. what says what the database is for, and byURL are further settings that name one by a URL.
func (p *Postgres) Add(g Group, what string, byURL ...string) {
	g.URL("postgres", &p.URL, "PGPASSWORD, PGPASSFILE or --postgres-password-file", "postgres://user@host/database, "+what)
	g.Add("postgres-password-file", &p.PasswordFile, "", "file with the password for PostgreSQL, if not PGPASSWORD or PGPASSFILE has it").
		Needs(append([]string{"postgres"}, byURL...)...)
}

// Password checks the URL of a flag or setting, and returns the password that it needs beside what is in the URL
// and in libpq's variables; "" for none.
func (p *Postgres) Password(flag, text string, input io.Reader) (string, error) {
	u, err := ReadURL(flag, text, "postgres", "postgresql")
	if err != nil || p.PasswordFile == "" {
		return "", err
	}
	inURL, _ := u.User.Password()
	return OnePassword("postgres", inURL, "", p.PasswordFile, input)
}
