// Command kubelet-server is the server of the end-to-end tests' kubelet: what kube-apiserver asks a node for.
// Connections to a pod's ports are served by Kubernetes' own library; whatever else is asked, and which port of
// loopback stands for a pod's, the kubelet answers on a Unix socket.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
)

const (
	idleTimeout   = 4 * time.Hour
	streamTimeout = 30 * time.Second
)

func main() {
	listen := flag.String("listen", "", "host:port to serve on")
	certificate := flag.String("cert", "", "the server's certificate")
	key := flag.String("key", "", "its private key")
	authority := flag.String("client-ca", "", "whose clients may ask")
	socket := flag.String("kubelet", "", "the kubelet's Unix socket")
	flag.Parse()

	pem, err := os.ReadFile(*authority)
	if err != nil {
		log.Fatal(err)
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(pem) {
		log.Fatalf("%s holds no certificate", *authority)
	}
	kubelet := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", *socket)
		},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/portForward/{namespace}/{pod}", func(w http.ResponseWriter, r *http.Request) {
		options, err := portforward.NewV4Options(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		pod := r.PathValue("namespace") + "/" + r.PathValue("pod")
		portforward.ServePortForward(w, r, forwarder{kubelet}, pod, "", options, idleTimeout, streamTimeout,
			portforward.SupportedProtocols)
	})
	mux.Handle("GET /containerLogs/", &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "kubelet"}) },
		Transport: kubelet,
	})
	server := &http.Server{
		Addr:      *listen,
		Handler:   mux,
		TLSConfig: &tls.Config{ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert},
	}
	log.Fatal(server.ListenAndServeTLS(*certificate, *key))
}

// forwarder leads to loopback, where the processes of all pods listen.
type forwarder struct {
	kubelet http.RoundTripper
}

// PortForward carries one connection until the pod ends it.
func (f forwarder) PortForward(ctx context.Context, pod, _ string, port int32, stream io.ReadWriteCloser) error {
	local, err := f.local(ctx, pod, port)
	if err != nil {
		return err
	}
	connection, err := new(net.Dialer).DialContext(ctx, "tcp4", "127.0.0.1:"+local)
	if err != nil {
		return err
	}
	defer connection.Close()
	go func() {
		io.Copy(connection, stream)
		// The client will say no more; the pod may still answer.
		connection.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, connection)
	return err
}

// local asks the kubelet which port of loopback stands for a pod's.
func (f forwarder) local(ctx context.Context, pod string, port int32) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://kubelet/ports/%s/%d", pod, port), nil)
	if err != nil {
		return "", err
	}
	reply, err := f.kubelet.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err == nil && reply.StatusCode != http.StatusOK {
		err = errors.New(string(body))
	}
	return string(body), err
}
