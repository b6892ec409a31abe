import { createRoot } from "react-dom/client";
import "../style/page.css";
import { Notebook, type Given } from "./notebook";

const given = JSON.parse(document.getElementById("whence-data")!.textContent!) as Given;
createRoot(document.getElementById("whence-page")!).render(<Notebook given={given} />);
