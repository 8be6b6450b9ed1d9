package redistest

import (
	"sync"

	"github.com/weblimit/weblimit/internal/test/lent"
)

// reach is how another process reaches a server that it is lent.
type reach struct{ Network, Addr, Dir string }

func (s *Server) reach() reach { return reach{s.network, s.addr, s.dir} }

// server returns the server, without its process: others stop it.
func (r reach) server() *Server { return &Server{network: r.Network, addr: r.Addr, dir: r.Dir} }

// reachCluster is how another process reaches a cluster that it is lent: its nodes, masters first, and
// what they are called.
type reachCluster struct {
	Nodes   []reach
	IDs     []string
	Masters int
}

// The names of the servers that are lent.
const (
	lentServer  = "redis"
	lentCluster = "redis-cluster"
)

// Lend returns the servers that [Shared] and [SharedCluster] find, for a process that lends them to test
// processes. It has to call [StopAll] in the end.
func Lend() lent.Servers {
	return lent.Servers{
		lentServer: func(string) (any, error) {
			s, err := startShared()
			if err != nil {
				return nil, err
			}
			return s.reach(), nil
		},
		lentCluster: func(string) (any, error) {
			c, err := startSharedCluster()
			if err != nil {
				return nil, err
			}
			r := reachCluster{Masters: c.masters}
			for _, node := range c.nodes {
				r.Nodes, r.IDs = append(r.Nodes, node.reach()), append(r.IDs, c.ids[node])
			}
			return r, nil
		},
	}
}

// shared asks for the shared server once, or starts it. Its error is kept, so that every test reports it.
var shared = sync.OnceValues(func() (*Server, error) {
	var r reach
	if found, err := lent.Ask(lentServer, &r); found || err != nil {
		return r.server(), err
	}
	return startShared()
})

func startShared() (*Server, error) { return start(unixSocket, nil) }

// sharedCluster asks for the shared cluster once, or starts it.
var sharedCluster = sync.OnceValues(func() (*Cluster, error) {
	var r reachCluster
	if found, err := lent.Ask(lentCluster, &r); !found && err == nil {
		return startSharedCluster()
	} else if err != nil {
		return nil, err
	}
	c := &Cluster{masters: r.Masters, ids: make(map[*Server]string)}
	for i, node := range r.Nodes {
		s := node.server()
		c.nodes, c.ids[s] = append(c.nodes, s), r.IDs[i]
	}
	return c, nil
})

// The long timeout is for busy machines: no master may fail over here.
func startSharedCluster() (*Cluster, error) {
	return startCluster(3, 1, []string{nodeTimeout, noticeNothing})
}
