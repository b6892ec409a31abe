import { flushSync } from "react-dom";
import { createRoot } from "react-dom/client";
import { App } from "./app";
import "./style/page.css";

// At once: a key that is pressed as soon as the page is there must find it listening.
flushSync(() => createRoot(document.getElementById("page")!).render(<App />));
