import { createRoot } from "react-dom/client";
import { App } from "./app";
import "./style/page.css";

createRoot(document.getElementById("page")!).render(<App />);
