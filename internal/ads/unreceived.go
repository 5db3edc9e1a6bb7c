package ads

import "context"

// defaultReceiveLimit is the largest message that a gRPC client receives by default. Istio's
// clients raise it since 1.12.
const defaultReceiveLimit = 4 << 20

// left reports what may have made a client leave: a response larger than it receives ends its
// stream, each time it reconnects, and neither side would log why.
func (s *Stream) left(ctx context.Context) {
	if ctx.Err() == nil {
		return // the server ended the stream
	}
	for _, sub := range s.subs {
		if sub.pending == "" || sub.largest <= defaultReceiveLimit {
			continue
		}
		s.cfg.Observer.Unreceived(s, sub.typeURL, sub.largest)
		s.cfg.Log.Warn("a client has left without an answer to a response that is larger than gRPC receives by default. If it does so each time, "+
			"let it receive larger messages, or ask in the incremental form, or show it fewer resources",
			s.cfg.Called, s.node.GetId(), "type", sub.typeURL, "revision", sub.revision, "bytes", sub.largest, "default_bytes", defaultReceiveLimit)
	}
}
