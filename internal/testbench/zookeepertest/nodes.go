package zookeepertest

import (
	"errors"
	"path"

	"github.com/go-zookeeper/zk"
)

// Put makes a node hold something. The nodes above it are made if they are missing.
func (c *Client) Put(node, content string) {
	c.t.Helper()
	c.PutFor(node, content, zk.WorldACL(zk.PermAll))
}

// PutFor is Put for a node that only some may read.
func (c *Client) PutFor(node, content string, acl []zk.ACL) {
	c.t.Helper()
	c.do("put "+node, func() error {
		_, err := c.Conn.Set(node, []byte(content), -1)
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		if err := c.makeAbove(node); err != nil {
			return err
		}
		_, err = c.Conn.Create(node, []byte(content), 0, acl)
		if errors.Is(err, zk.ErrNodeExists) {
			_, err = c.Conn.Set(node, []byte(content), -1)
		}
		return err
	})
}

func (c *Client) makeAbove(node string) error {
	above := path.Dir(node)
	if above == "/" {
		return nil
	}
	if there, _, err := c.Conn.Exists(above); err != nil || there {
		return err
	}
	if err := c.makeAbove(above); err != nil {
		return err
	}
	_, err := c.Conn.Create(above, nil, 0, zk.WorldACL(zk.PermAll))
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// Remove removes a node that has none below it.
func (c *Client) Remove(node string) {
	c.t.Helper()
	c.do("remove "+node, func() error {
		err := c.Conn.Delete(node, -1)
		if errors.Is(err, zk.ErrNoNode) { // the answer to an earlier attempt was lost
			return nil
		}
		return err
	})
}

// RemoveIfEmpty removes a node unless there are others below it.
func (c *Client) RemoveIfEmpty(node string) {
	c.t.Helper()
	c.do("remove "+node, func() error {
		err := c.Conn.Delete(node, -1)
		if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNotEmpty) {
			return nil
		}
		return err
	})
}

// mostOperations is how many nodes are made in one transaction: it may have a megabyte.
const mostOperations = 500

// PutMany makes nodes, in their order, many at a time. There must be none of them.
func (c *Client) PutMany(nodes, contents []string) {
	c.t.Helper()
	for len(nodes) > 0 {
		n := min(mostOperations, len(nodes))
		operations := make([]any, n)
		for i := range n {
			operations[i] = &zk.CreateRequest{Path: nodes[i], Data: []byte(contents[i]), Acl: zk.WorldACL(zk.PermAll)}
		}
		if _, err := c.Conn.Multi(operations...); err != nil {
			c.t.Fatal(err)
		}
		nodes, contents = nodes[n:], contents[n:]
	}
}
