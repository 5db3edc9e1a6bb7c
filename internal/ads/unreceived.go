package ads

import "context"

// received is the size of a message that every client of gRPC receives, unless it was told otherwise. Istio's raise it since 1.12.
const received = 4 << 20

// left tells of what may have made a client leave: a response that is larger than it receives ends its stream, and does so again each
// time that it comes back, of which neither side would say a word.
func (s *Stream) left(ctx context.Context) {
	if ctx.Err() == nil {
		return // it was the server that ended the stream
	}
	for _, sub := range s.subs {
		if sub.pending == "" || sub.largest <= received {
			continue
		}
		s.cfg.Observer.Unreceived(s, sub.typeURL, sub.largest)
		s.cfg.Log.Warn("a client has left without an answer to a response that is larger than gRPC receives by default. If it does so each time, "+
			"let it receive larger messages, or ask in the incremental form, or show it fewer resources",
			"node", s.node.GetId(), "type", sub.typeURL, "revision", sub.revision, "bytes", sub.largest, "default_bytes", received)
	}
}
