package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weblimit/weblimit/cmd/weblimitd/internal/listen"
	"github.com/weblimit/weblimit/cmd/weblimitd/internal/secure"
	"github.com/weblimit/weblimit/inspect"
	"github.com/weblimit/weblimit/internal/browser"
	"github.com/weblimit/weblimit/internal/settings"
)

// minPassword is the least number of bytes of an operator's password.
const minPassword = 16

// operatorOptions are the settings of operators.
type operatorOptions struct {
	adminUsers, adminUsersFile                 settings.String
	adminHosts                                 settings.List
	adminTLSCert, adminTLSKey, adminTLSClients settings.String
	adminTLSClientNames                        settings.List
	pprof                                      settings.Bool
}

func (o *operatorOptions) add(g settings.Group) {
	for _, setting := range []*settings.Setting{
		g.Secret("admin-users", &o.adminUsers, "name:password:read or name:password:act, with commas between them"),
		g.Add("admin-users-file", &o.adminUsersFile, "", "file of these, one per line"),
		g.Add("admin-hosts", &o.adminHosts, "", "names in a browser's address bar under which the page is reached"),
		g.Add("admin-tls-cert", &o.adminTLSCert, "", "PEM file with the certificate of the admin listener"),
		g.Add("admin-tls-key", &o.adminTLSKey, "", "PEM file with its key"),
		g.Add("admin-tls-client-ca", &o.adminTLSClients, "", "PEM file of authorities: operators need a certificate of them"),
		g.Add("admin-tls-client-names", &o.adminTLSClientNames, "", "names that an operator's certificate has one of"),
		g.Add("pprof", &o.pprof, "false", "serve profiles at /debug/pprof/ to operators who may act"),
	} {
		setting.Needs("admin-listen")
	}
}

// operators says who may see and change what the service does.
type operators struct {
	// Set when the admin listener is open, before it serves, and not changed.
	reach   listen.Reach
	certs   *secure.Certificates // nil without TLS
	allowed bool                 // by --insecure-listen

	hosts []string                   // in the form that browser.CanonicalHost gives
	users atomic.Pointer[[]operator] // replaced as a whole, so that requests see the users of one file
	text  string                     // of users in the environment
	file  string
}

type operator struct {
	name           string
	hash, password [sha256.Size]byte
	may            inspect.Permission
}

func newOperators(text, file string, hosts []string) (*operators, error) {
	o := &operators{text: text, file: file}
	for _, host := range hosts {
		o.hosts = append(o.hosts, browser.CanonicalHost(host))
	}
	_, err := o.reload()
	return o, err
}

// reload reads the users again, and reports whether they have changed. If anything is wrong, nothing
// changes.
func (o *operators) reload() (changed bool, err error) {
	var users []operator
	add := func(place, line string) error {
		u, _, err := readOperator(line)
		if err != nil {
			return fmt.Errorf("%s: %w", place, err)
		}
		if slices.ContainsFunc(users, func(other operator) bool { return other.name == u.name }) {
			return fmt.Errorf("%s: there are two users %q", place, u.name)
		}
		users = append(users, u)
		return nil
	}
	for i, line := range o.lines() {
		if line == "" {
			continue
		}
		if err := add(fmt.Sprintf("WEBLIMIT_ADMIN_USERS: user %d", i+1), line); err != nil {
			return false, err
		}
	}
	if o.file != "" {
		lines, err := secure.ReadLines(o.file)
		if err != nil {
			return false, fmt.Errorf("--admin-users-file: %w", err)
		}
		for _, line := range lines {
			if err := add(fmt.Sprintf("%s:%d", o.file, line.Number), line.Text); err != nil {
				return false, err
			}
		}
		if len(users) == 0 { // as while it is being written: nobody could log in any more
			return false, fmt.Errorf("--admin-users-file: %s has no user: one per line", o.file)
		}
	}
	before := o.users.Swap(&users)
	return before != nil && !slices.Equal(*before, users), nil
}

func (o *operators) lines() []string {
	if o.text == "" {
		return nil
	}
	return strings.Split(o.text, ",")
}

// readOperator reads name:password:read or name:password:act. No error repeats the password.
func readOperator(line string) (u operator, password string, err error) {
	name, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
	at := strings.LastIndexByte(rest, ':')
	if name == "" || at < 0 {
		return u, "", errors.New("a user is name:password:read or name:password:act")
	}
	password = rest[:at]
	switch rest[at+1:] {
	case "read":
		u.may = inspect.Read
	case "act":
		u.may = inspect.Act
	default:
		return u, "", fmt.Errorf("the user %q must end with :read or :act", name)
	}
	if len(password) < minPassword {
		return u, "", fmt.Errorf("the password of %q must have at least %d bytes", name, minPassword)
	}
	u.name, u.hash, u.password = name, sha256.Sum256([]byte(name)), sha256.Sum256([]byte(password))
	return u, password, nil
}

// authorize returns who makes a request and what they may do. Whoever may open the unix socket, or has a
// certificate for the admin listener, may do everything; else users have passwords. Over the network
// these need TLS. Nobody is let in for their address.
func (o *operators) authorize(r *http.Request) (actor string, may inspect.Permission) {
	if o.reach == listen.SocketFile {
		return "unix socket", inspect.Act
	}
	if o.certs != nil && o.certs.Mutual() && o.certs.LetsIn(r.TLS) {
		return "certificate " + r.TLS.PeerCertificates[0].Subject.CommonName, inspect.Act
	}
	if !o.passwordsAllowed() {
		return "", inspect.None
	}
	name, password, ok := r.BasicAuth()
	if !ok {
		return "", inspect.None
	}
	gotName, gotPassword := sha256.Sum256([]byte(name)), sha256.Sum256([]byte(password))
	for _, u := range *o.users.Load() { // all of them, so that the time says nothing
		if subtle.ConstantTimeCompare(u.hash[:], gotName[:])&subtle.ConstantTimeCompare(u.password[:], gotPassword[:]) == 1 {
			actor, may = u.name, u.may
		}
	}
	return actor, may
}

func (o *operators) passwordsAllowed() bool {
	return o.reach != listen.Network || o.certs != nil || o.allowed
}

// why says what an operator lacks.
func (o *operators) why() string {
	switch {
	case !o.passwordsAllowed():
		return "Operators are let in over TLS, a unix socket or loopback alone: set --admin-tls-cert, or --insecure-listen if nobody can listen."
	case len(*o.users.Load()) == 0:
		return "No operator is known: set --admin-users-file, or let the admin listener be a unix socket."
	}
	return "This is for operators: log in."
}

// knowsHost reports whether a browser may reach the admin listener under the request's host, so that a
// foreign name that resolves to this machine shows nothing.
func (o *operators) knowsHost(r *http.Request) bool {
	if o.reach == listen.SocketFile {
		return true
	}
	return browser.Knows(o.hosts, r.Host) || browser.IsLocal(r.Host)
}

// known returns a handler for what everybody may read who asks by an address, by a name without a dot or by one of
// the hosts: a page of another site can have none of them.
func (o *operators) known(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if browser.CanRebind(r.Host) && !o.knowsHost(r) {
			misdirected(w)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func misdirected(w http.ResponseWriter) {
	answerProblem(w, http.StatusMisdirectedRequest, "This is not served under the host of this request. If it should be, add it to --admin-hosts.")
}

// only returns a handler for operators who have a permission. What changes something takes POST with the
// header of the page's API, which pages of other sites can't set.
func (o *operators) only(may inspect.Permission, h func(w http.ResponseWriter, r *http.Request, actor string)) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !o.knowsHost(r) {
			misdirected(w)
			return
		}
		actor, has := o.authorize(r)
		switch {
		case actor == "":
			if o.passwordsAllowed() && len(*o.users.Load()) > 0 {
				w.Header().Set("WWW-Authenticate", `Basic realm="weblimitd", charset="UTF-8"`)
			}
			answerProblem(w, http.StatusUnauthorized, o.why())
			return
		case has < may:
			answerProblem(w, http.StatusForbidden, "You may look, and not act.")
			return
		}
		if r.Method == http.MethodPost {
			if crossOrigin.Check(r) != nil {
				answerProblem(w, http.StatusForbidden, "The request comes from a page of another origin.")
				return
			}
			if r.Header.Get(actionHeader) == "" && !strings.HasPrefix(r.URL.Path, pagePath) { // the page checks its own
				answerProblem(w, http.StatusForbidden, "The header "+actionHeader+" is missing. Any value will do.")
				return
			}
		}
		h(w, r, actor)
	})
}

const actionHeader = "Weblimit-Inspect"
