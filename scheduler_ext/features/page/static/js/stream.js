// The stream of changes. Each reply of the server ends, and the browser asks again with the id of the last
// event; while the page is hidden there are no requests.

const LOST_AFTER_MS = 4000;

export class Stream {
  received = 0;
  first = 0;
  #source = null;
  #id = "";
  #heardAt = 0;

  constructor(onChange, connection) {
    this.onChange = onChange;
    this.connection = connection;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#close() : this.#open()));
    setInterval(() => this.#watch(), 1000);
    this.#open();
  }

  #open() {
    if (this.#source) return;
    this.#heardAt = performance.now();
    this.#source = new EventSource(`events?seen=${encodeURIComponent(this.#id)}`);
    this.#source.addEventListener("wait", (event) => {
      this.#heard();
      this.connection.answered(JSON.parse(event.data).status, false);
    });
    this.#source.addEventListener("change", (event) => {
      this.#heard();
      this.#id = event.lastEventId;
      this.received += event.data.length;
      this.first ||= event.data.length;
      this.onChange(JSON.parse(event.data));
    });
  }

  #close() {
    this.#source?.close();
    this.#source = null;
  }

  #heard() {
    this.#heardAt = performance.now();
  }

  #watch() {
    if (!this.#source) return;
    const silentMs = performance.now() - this.#heardAt;
    if (silentMs > LOST_AFTER_MS) this.connection.lost((Date.now() - silentMs) / 1000);
        // After an invalid reply (a proxy's error page) the browser does not reconnect.
    if (this.#source.readyState === EventSource.CLOSED) {
      this.#source = null;
      const heardAt = this.#heardAt;
      this.#open();
      this.#heardAt = heardAt;
    }
  }
}
