package systemd

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Notifier tells the service manager how the process is. A nil Notifier tells nobody.
type Notifier struct {
	conn *net.UnixConn
	// Watchdog is how often the manager wants to hear Alive; half of its limit. 0 for never.
	Watchdog time.Duration
}

// NewNotifier returns a Notifier, nil if no service manager listens. It removes the variables.
func NewNotifier() (*Notifier, error) {
	socket, usec, pid := os.Getenv("NOTIFY_SOCKET"), os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	for _, variable := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		_ = os.Unsetenv(variable)
	}
	if socket == "" {
		return nil, nil
	}
	if strings.HasPrefix(socket, "@") {
		socket = "\x00" + socket[1:] // a name without a file
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	n := &Notifier{conn: conn}
	if us, err := strconv.ParseInt(usec, 10, 64); err == nil && us > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.Watchdog = time.Duration(us) * time.Microsecond / 2
	}
	return n, nil
}

// Ready says that the process serves, with a line for systemctl status.
func (n *Notifier) Ready(status string) { n.send("READY=1", "STATUS="+status) }

// Status sets the line for systemctl status.
func (n *Notifier) Status(status string) { n.send("STATUS=" + status) }

// Reloading says that settings are read again, until Ready.
func (n *Notifier) Reloading() { n.send("RELOADING=1", "MONOTONIC_USEC="+monotonic()) }

// Stopping says that the process ends.
func (n *Notifier) Stopping() { n.send("STOPPING=1", "STATUS=draining") }

// Extend asks for more time before the manager kills the process while it stops.
func (n *Notifier) Extend(d time.Duration) {
	n.send("EXTEND_TIMEOUT_USEC=" + strconv.FormatInt(d.Microseconds(), 10))
}

// Alive says that the process is not stuck.
func (n *Notifier) Alive() { n.send("WATCHDOG=1") }

// send sends a message. One that is lost is not worth an error: the manager has limits of its own.
func (n *Notifier) send(lines ...string) {
	if n == nil {
		return
	}
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(line, "\n", " ")
	}
	_ = n.conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = n.conn.Write([]byte(strings.Join(lines, "\n")))
}
