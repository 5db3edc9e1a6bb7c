package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// Handler answers the API server when somebody has it run a command in a Pod (kubectl exec), or reads
// a log.
func (n *Node) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", n.exec)
	mux.HandleFunc("/containerLogs/{namespace}/{pod}/{container}", n.logs)
	return mux
}

// stream is one that the caller has opened.
type stream struct {
	httpstream.Stream

	answered <-chan struct{}
}

func (n *Node) exec(w http.ResponseWriter, request *http.Request) {
	query := request.URL.Query()
	r := n.run(types.NamespacedName{Namespace: request.PathValue("namespace"), Name: request.PathValue("pod")})
	if r == nil || r.commands[query.Get("command")] == "" {
		http.Error(w, "the node does not run this Pod, or does not have this command", http.StatusNotFound)
		return
	}
	if _, err := httpstream.Handshake(request, w, []string{remotecommand.StreamProtocolV4Name}); err != nil {
		return // it has answered
	}
	opened := make(chan stream, 4)
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, request, func(s httpstream.Stream, answered <-chan struct{}) error {
		opened <- stream{s, answered}
		return nil
	})
	if connection == nil {
		return // it has answered
	}
	defer connection.Close()
	streams, err := collect(request.Context(), connection, opened, 3)
	if err != nil {
		n.t.Logf("run a command in a Pod: %v", err)
		return
	}
	cmd := r.command(append([]string{r.commands[query.Get("command")]}, query["command"][1:]...)...)
	cmd.Stdout, cmd.Stderr = streams[corev1.StreamTypeStdout], streams[corev1.StreamTypeStderr]
	if err := json.NewEncoder(streams[corev1.StreamTypeError]).Encode(status(cmd.Run())); err != nil {
		n.t.Logf("tell how a command in a Pod has ended: %v", err)
	}
	for _, s := range streams {
		_ = s.Close()
	}
}

// collect waits until the caller has opened its streams.
func collect(ctx context.Context, connection httpstream.Connection, opened <-chan stream, count int) (map[string]httpstream.Stream, error) {
	streams := map[string]httpstream.Stream{}
	for len(streams) < count {
		select {
		case s := <-opened:
			<-s.answered
			streams[s.Headers().Get(corev1.StreamType)] = s
		case <-connection.CloseChan():
			return nil, errors.New("the caller has gone")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return streams, nil
}

// status says how a command ended.
func status(err error) metav1.Status {
	if err == nil {
		return metav1.Status{Status: metav1.StatusSuccess}
	}
	s := metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		s.Reason = remotecommand.NonZeroExitCodeReason
		s.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: fmt.Sprint(exit.ExitCode())}}}
	}
	return s
}

// Register tells the cluster of the Node, and where it answers.
func (n *Node) Register(ctx context.Context, port int32) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	if err := n.client.Create(ctx, node); err != nil {
		return err
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: n.Address.String()}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = port
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n.client.Status().Update(ctx, node)
}
