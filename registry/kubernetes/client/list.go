package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pgmesh/pgmesh/registry/kubernetes/wire"
)

const (
	// page is how many objects an answer has: large enough to be few, and small enough that the
	// server need not make all of them at once.
	page = 500
	// largest bounds one object with what stands around it. etcd takes 1.5 MiB.
	largest = 16 << 20
	// mostPages bounds a list: a million objects.
	mostPages = 2000
)

// bounded is an answer of which each object may have so many bytes.
type bounded struct {
	from io.Reader
	left int
}

var errLarge = errors.New("an object has more than 16 MiB")

func (b *bounded) Read(into []byte) (int, error) {
	if b.left <= 0 {
		return 0, &Garbage{errLarge}
	}
	n, err := b.from.Read(into[:min(len(into), b.left)])
	b.left -= n
	return n, err
}

// Objects decodes each object of a list.
type Objects struct {
	JSON func(*json.Decoder) error
	// Protobuf is given the message of an object, which it must not keep. It is nil if the list is to
	// be JSON.
	Protobuf func(message []byte) error
}

// List has each object of a list decoded, and returns the version from which changes follow. All pages
// are of that version.
func (c *Client) List(ctx context.Context, path string, objects Objects) (version string, err error) {
	query := url.Values{"limit": {strconv.Itoa(page)}}
	for range mostPages {
		found, err := c.page(ctx, path, query, objects)
		if err != nil {
			return "", err
		}
		if found.Continue == "" {
			return found.ResourceVersion, nil
		}
		query.Set("continue", found.Continue)
	}
	return "", &Garbage{fmt.Errorf("the list has more than %d pages", mostPages)}
}

// Version is the version that a list has now, without its objects.
func (c *Client) Version(ctx context.Context, path string) (string, error) {
	found, err := c.page(ctx, path, url.Values{"limit": {"1"}}, Objects{JSON: func(d *json.Decoder) error { return d.Decode(&json.RawMessage{}) }})
	return found.ResourceVersion, err
}

// listMeta is what a page says of itself.
type listMeta struct {
	ResourceVersion string `json:"resourceVersion"`
	Continue        string `json:"continue"`
}

func (c *Client) page(ctx context.Context, path string, query url.Values, objects Objects) (listMeta, error) {
	a, err := c.ask(ctx, question{method: http.MethodGet, path: path, query: query, compact: objects.Protobuf != nil})
	if err != nil {
		return listMeta{}, err
	}
	defer a.Close()
	meta, err := a.page(objects)
	if err != nil {
		return meta, c.broken(a, err)
	}
	return meta, nil
}

func (a *answer) page(objects Objects) (listMeta, error) {
	if a.compact {
		l := wire.List{Most: largest, Objects: objects.Protobuf}
		err := l.Read(a)
		return listMeta{ResourceVersion: l.Version, Continue: l.Continue}, err
	}
	body := &bounded{from: a, left: largest}
	p := &pageReader{Decoder: json.NewDecoder(body), body: body, object: objects.JSON}
	err := p.read()
	return p.meta, err
}

// pageReader reads the members of a list in any order.
type pageReader struct {
	*json.Decoder

	body   *bounded
	object func(*json.Decoder) error
	meta   listMeta
	listed bool
}

func (p *pageReader) read() error {
	if err := p.expect('{'); err != nil {
		return err
	}
	for p.More() {
		p.body.left = largest
		name, err := p.Token()
		if err != nil {
			return err
		}
		switch name {
		case "metadata":
			err = p.Decode(&p.meta)
		case "items":
			err = p.items()
		default:
			err = p.Decode(&json.RawMessage{})
		}
		if err != nil {
			return err
		}
	}
	if err := p.expect('}'); err != nil {
		return err
	}
	if !p.listed || p.meta.ResourceVersion == "" {
		return &Garbage{errors.New("it is no list of Kubernetes")}
	}
	return nil
}

func (p *pageReader) expect(want json.Delim) error {
	token, err := p.Token()
	if err == nil && token != want {
		err = &Garbage{fmt.Errorf("there is %v in place of %v", token, want)}
	}
	return err
}

func (p *pageReader) items() error {
	p.listed = true
	token, err := p.Token()
	if err != nil || token == nil { // null is a list of nothing
		return err
	}
	if token != json.Delim('[') {
		return &Garbage{fmt.Errorf("items begins with %v", token)}
	}
	for p.More() {
		p.body.left = largest
		if err := p.object(p.Decoder); err != nil {
			return err
		}
	}
	return p.expect(']')
}

// Get reads a document into a value.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	a, err := c.get(ctx, path, nil)
	if err != nil {
		return err
	}
	defer a.Close()
	if err := json.NewDecoder(&bounded{from: a, left: largest}).Decode(into); err != nil {
		return c.broken(a, err)
	}
	return nil
}

// Reach asks for a path whose answer says nothing but that there is one.
func (c *Client) Reach(ctx context.Context, path string) error {
	a, err := c.get(ctx, path, nil)
	if err != nil {
		return err
	}
	defer a.Close()
	if _, err := io.Copy(io.Discard, &bounded{from: a, left: largest}); err != nil {
		return c.broken(a, err)
	}
	return nil
}

// broken tells what ended an answer: the connection, or its own content.
func (c *Client) broken(a *answer, err error) error {
	if _, is := errors.AsType[*Garbage](err); is {
		return err
	}
	if _, is := errors.AsType[*wire.Malformed](err); is {
		return &Garbage{err}
	}
	var syntax *json.SyntaxError
	var sort *json.UnmarshalTypeError
	if !a.silent.Load() && (errors.As(err, &syntax) || errors.As(err, &sort)) {
		return &Garbage{err}
	}
	return a.failed(c.Access(), err)
}
