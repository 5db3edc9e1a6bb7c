package limits

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
)

// heard follows bytes in pieces, and lists the calls that it gets: for ends, only those of large
// messages.
func heard(pieces ...[]byte) (told []string, f *frames, err error) {
	held := map[uint32]bool{}
	f = newFrames(func(stream uint32, size int) (bool, error) {
		told = append(told, fmt.Sprint("large ", stream, " ", size))
		held[stream] = true
		return true, nil
	}, func(stream uint32) {
		if held[stream] {
			told = append(told, fmt.Sprint("ended ", stream))
			delete(held, stream)
		}
	})
	for _, p := range pieces {
		if err = f.follow(p); err != nil {
			break
		}
	}
	return told, f, err
}

// client writes as one.
type client struct {
	bytes.Buffer
	*http2.Framer
}

func newClient() *client {
	c := &client{}
	c.WriteString(http2.ClientPreface)
	c.Framer = http2.NewFramer(&c.Buffer, nil)
	return c
}

func message(size int) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(size)), make([]byte, size)...)
}

// Messages of all sizes come on several streams at once, cut into frames and pieces anywhere, with
// or without padding.
func TestLargeMessagesAreFoundHoweverTheyAreCut(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 1))
		c, left, want := newClient(), map[uint32][]byte{}, []string{}
		for stream := uint32(1); stream < 8; stream += 2 {
			for range 3 {
				size := []int{0, 1, 5000, unfinishedFree - messagePrefix, unfinishedFree, 300_000}[random.IntN(6)]
				left[stream] = append(left[stream], message(size)...)
				if size+messagePrefix > unfinishedFree {
					want = append(want, fmt.Sprint("large ", stream, " ", size+messagePrefix), fmt.Sprint("ended ", stream))
				}
			}
		}
		require.NoError(t, c.WriteSettings())
		for len(left) > 0 {
			stream := uint32(1 + 2*random.IntN(4))
			n := min(1+random.IntN(16<<10), len(left[stream]))
			if n == 0 {
				continue
			}
			require.NoError(t, c.WriteDataPadded(stream, false, left[stream][:n], slices.Repeat([]byte{0}, random.IntN(2)*random.IntN(256))))
			if left[stream] = left[stream][n:]; len(left[stream]) == 0 {
				delete(left, stream)
			}
			require.NoError(t, c.WritePing(false, [8]byte{}))
		}
		var pieces [][]byte
		for all := c.Bytes(); len(all) > 0; {
			n := min(1+random.IntN(20_000), len(all))
			pieces, all = append(pieces, all[:n]), all[n:]
		}
		told, f, err := heard(pieces...)
		require.NoError(t, err)
		require.ElementsMatch(t, want, told, "seed %d", seed)
		require.Empty(t, f.unfinished)
	}
}

func TestWhatAClientGivesUpIsNoMoreOnItsWay(t *testing.T) {
	t.Parallel()
	half := message(300_000)[:200_000]
	for name, end := range map[string]func(*client) error{
		"it resets the stream": func(c *client) error { return c.WriteRSTStream(1, http2.ErrCodeCancel) },
		"it sends no more":     func(c *client) error { return c.WriteData(1, true, nil) },
		"it ends with headers": func(c *client) error {
			return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, EndHeaders: true})
		},
	} {
		c := newClient()
		for part := range slices.Chunk(half, 16<<10) {
			require.NoError(t, c.WriteData(1, false, part))
		}
		_, f, err := heard(c.Bytes())
		require.NoError(t, err)
		require.Len(t, f.unfinished, 1)
		require.NoError(t, end(c))
		told, f, err := heard(c.Bytes())
		require.NoError(t, err)
		require.Equal(t, []string{"large 1 300005", "ended 1"}, told, name)
		require.Empty(t, f.unfinished, name)
	}
}

func TestCrumbsAndCountlessMessagesEndAConnection(t *testing.T) {
	t.Parallel()
	c := newClient()
	for _, b := range message(4000) {
		require.NoError(t, c.WriteData(1, false, []byte{b}))
	}
	_, _, err := heard(c.Bytes())
	require.ErrorIs(t, err, errCrumbs)

	c = newClient()
	for i := range uint32(mostUnfinished + 1) {
		require.NoError(t, c.WriteData(2*i+1, false, []byte{0}))
	}
	_, _, err = heard(c.Bytes())
	require.ErrorIs(t, err, errUnended)
}

// Any bytes, however they are cut, are followed without a panic, and lead to the same calls.
func FuzzFrames(f *testing.F) {
	c := newClient()
	for _, err := range []error{c.WriteDataPadded(1, false, message(200_000)[:20], make([]byte, 9)), c.WriteRSTStream(1, 0), c.WriteData(3, true, message(1))} {
		require.NoError(f, err)
	}
	f.Add(c.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		whole, _, err := heard(b)
		var single [][]byte
		for part := range slices.Chunk(b, 1) {
			single = append(single, part)
		}
		cut, _, again := heard(single...)
		require.Equal(t, whole, cut)
		require.Equal(t, err, again)
	})
}
