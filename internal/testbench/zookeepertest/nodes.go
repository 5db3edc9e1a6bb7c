package zookeepertest

import (
	"errors"
	"path"

	"github.com/go-zookeeper/zk"
)

// Put makes a node hold something. The nodes above it are made if they are missing.
func (z *ZooKeeper) Put(node, content string) {
	z.t.Helper()
	z.PutFor(node, content, zk.WorldACL(zk.PermAll))
}

// PutFor is Put for a node that only some may read.
func (z *ZooKeeper) PutFor(node, content string, acl []zk.ACL) {
	z.t.Helper()
	z.do("put "+node, func() error {
		_, err := z.Conn.Set(node, []byte(content), -1)
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		if err := z.makeAbove(node); err != nil {
			return err
		}
		_, err = z.Conn.Create(node, []byte(content), 0, acl)
		if errors.Is(err, zk.ErrNodeExists) {
			_, err = z.Conn.Set(node, []byte(content), -1)
		}
		return err
	})
}

func (z *ZooKeeper) makeAbove(node string) error {
	above := path.Dir(node)
	if above == "/" {
		return nil
	}
	if there, _, err := z.Conn.Exists(above); err != nil || there {
		return err
	}
	if err := z.makeAbove(above); err != nil {
		return err
	}
	_, err := z.Conn.Create(above, nil, 0, zk.WorldACL(zk.PermAll))
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// Remove removes a node that has none below it.
func (z *ZooKeeper) Remove(node string) {
	z.t.Helper()
	z.do("remove "+node, func() error {
		err := z.Conn.Delete(node, -1)
		if errors.Is(err, zk.ErrNoNode) { // the answer to an earlier attempt was lost
			return nil
		}
		return err
	})
}

// RemoveIfEmpty removes a node unless there are others below it.
func (z *ZooKeeper) RemoveIfEmpty(node string) {
	z.t.Helper()
	z.do("remove "+node, func() error {
		err := z.Conn.Delete(node, -1)
		if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNotEmpty) {
			return nil
		}
		return err
	})
}

// mostOperations is how many nodes are made in one transaction: it may have a megabyte.
const mostOperations = 500

// PutMany makes nodes, in their order, many at a time. There must be none of them.
func (z *ZooKeeper) PutMany(nodes, contents []string) {
	z.t.Helper()
	for len(nodes) > 0 {
		n := min(mostOperations, len(nodes))
		operations := make([]any, n)
		for i := range n {
			operations[i] = &zk.CreateRequest{Path: nodes[i], Data: []byte(contents[i]), Acl: zk.WorldACL(zk.PermAll)}
		}
		if _, err := z.Conn.Multi(operations...); err != nil {
			z.t.Fatal(err)
		}
		nodes, contents = nodes[n:], contents[n:]
	}
}
